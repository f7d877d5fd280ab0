// A sequence that grows by sampled tokens: its ids, its place in the random stream, and where it ends. Not installed.
#pragma once

#include <span>
#include <vector>

#include "weft/generate/engine.h"

namespace weft {

class SampledSequence {
 public:
  // `positions`: the longest sequence if options.max_tokens is 0.
  SampledSequence(std::vector<int32_t> prompt, const SequenceOptions& options, int64_t positions);

  const SequenceOptions& options() const { return options_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }  // the prompt, then the new ones
  size_t prompt_tokens() const { return prompt_tokens_; }
  size_t most() const { return most_; }  // tokens in all

  // Samples the next token from the logits after the last one. `terms`: of these logits; ignored unless log-probabilities are wanted.
  EngineToken next(std::span<const float> logits, const RowTerms* terms);
  // Whether the next token is simply the one with the largest logit, so that the device may choose it (weft/ops/sample).
  bool takes_best() const;
  EngineToken take(int32_t id);

 private:
  SequenceOptions options_;
  Sampler sampler_;
  uint64_t key_;  // of the prompt's ids, for the draws
  std::vector<int32_t> tokens_;
  size_t prompt_tokens_, most_;
};

}  // namespace weft
