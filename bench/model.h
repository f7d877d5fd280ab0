// Times a whole model with random weights against ceilings: prefill against the multiply-add (or bf16 dot) peak, and decoding against
// reading every weight once per token.
#pragma once

#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/breakdown.h"
#include "weft/base/cost.h"
#include "weft/models/model.h"

namespace weft::bench {

struct ModelResult {
  std::string what;  // "prefill", "decode"
  std::string dtype, ceiling;
  double tokens = 0, seconds = 0;  // median
  Cost cost;
  double ratio = 0, wanted = 0;
  int attempts = 1;
  bool disturbed = false;  // the ceiling changed by more than a tenth meanwhile, in every attempt
  Breakdown breakdown;     // of a few more runs, timed launch by launch
};

inline constexpr double kPrefillWanted = 0.75, kDecodeWanted = 0.85;

// The FLOPs that a prompt of T tokens needs at least: every matmul once per token, the head for the last token only, and attention over the
// positions before.
double prefill_flops(const ModelConfig& config, int64_t T);

// Prefill of `prompt_tokens`, then `new_tokens` greedy tokens.
std::vector<ModelResult> measure_model(const Model& model, Ceilings& ceilings, int threads, int64_t prompt_tokens, int64_t new_tokens);

}  // namespace weft::bench
