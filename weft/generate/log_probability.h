// Log-probabilities of tokens: cross_entropy's row function on the model's f32 logits as they are, before penalties, temperature, top-k and
// the rest (docs/numerics.md). Those that a Generator records while it samples and those that score() computes for the same tokens by the
// training forward pass have the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

struct IdLogProbability {
  int32_t id;
  float value;  // natural logarithm
};

struct TokenLogProbability : IdLogProbability {
  std::vector<IdLogProbability> top;  // of the most likely tokens, if wanted: descending, equal ones by id
};

// The terms of one row's log-probabilities (log_probability_terms of weft/ops/cross_entropy), on the host.
struct RowTerms {
  float maximum, log_sum;
};
std::vector<RowTerms> row_terms(const Tensor& logits);  // of [rows, vocabulary]

// The log-probability of token `id` and of the `top` most likely ones, given the row's logits.
TokenLogProbability token_log_probability(std::span<const float> logits, RowTerms terms, int32_t id, int64_t top);

}  // namespace weft
