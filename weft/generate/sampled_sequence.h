// A sequence that grows by sampled tokens: its ids, its random stream and its end conditions. Not installed.
#pragma once

#include <span>
#include <vector>

#include "weft/generate/engine.h"

namespace weft {

class SampledSequence {
 public:
  // `positions`: maximum length if options.max_tokens is 0.
  SampledSequence(std::vector<int32_t> prompt, const SequenceOptions& options, int64_t positions);

  const SequenceOptions& options() const { return options_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }  // the prompt, then the new ones
  size_t prompt_tokens() const { return prompt_tokens_; }
  size_t most() const { return most_; }  // maximum length, the prompt included

  // Samples the next token from the logits of the last one. `terms` belong to these logits and are used for log-probabilities only.
  EngineToken next(std::span<const float> logits, const RowTerms* terms);
  // Whether the next token is the argmax of the logits, which the device can choose (weft/ops/sample).
  bool takes_best() const;
  EngineToken take(int32_t id);

 private:
  SequenceOptions options_;
  Sampler sampler_;
  uint64_t key_;  // hash of the prompt's ids, for the random stream
  std::vector<int32_t> tokens_;
  size_t prompt_tokens_, most_;
};

}  // namespace weft
