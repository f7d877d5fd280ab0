#include "weft/generate/sampled_sequence.h"

#include <algorithm>
#include <utility>

namespace weft {

SampledSequence::SampledSequence(std::vector<int32_t> prompt, const SequenceOptions& options, int64_t positions)
    : options_(options),
      sampler_(options.sampling),
      key_(prompt_key(prompt)),
      tokens_(std::move(prompt)),
      prompt_tokens_(tokens_.size()),
      most_(options.max_tokens > 0 ? prompt_tokens_ + size_t(options.max_tokens) : size_t(positions)) {
  tokens_.reserve(most_);  // so that steps do not allocate
}

EngineToken SampledSequence::next(std::span<const float> logits, const RowTerms* terms) {
  const int32_t id = sampler_.next(logits, tokens_, {key_, options_.occurrence, uint32_t(tokens_.size())});
  EngineToken token = take(id);
  if (options_.log_probabilities) token.log_probability = token_log_probability(logits, *terms, id, options_.top_log_probabilities);
  return token;
}

bool SampledSequence::takes_best() const {
  return options_.sampling.temperature == 0 && options_.sampling.repetition_penalty == 1 && !options_.log_probabilities;
}

EngineToken SampledSequence::take(int32_t id) {
  tokens_.push_back(id);
  EngineToken token{.sequence = 0, .id = id};
  if (std::ranges::find(options_.end_ids, id) != options_.end_ids.end())
    token.finished = FinishReason::eos;
  else if (tokens_.size() == most_)
    token.finished = FinishReason::length;
  return token;
}

}  // namespace weft
