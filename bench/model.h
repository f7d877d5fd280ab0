// Times a whole model with random weights against ceilings. The ceiling of prefill is the multiply-add (or bf16 dot) peak; that of decoding
// is reading every weight and the keys and values of every sequence once per step.
#pragma once

#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/breakdown.h"
#include "weft/base/cost.h"
#include "weft/generate/sampler.h"
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
  struct Memory {
    int64_t model = 0, pool = 0, peak = 0;  // bytes: in use before the engine is made; KV cache pages; peak
  } memory = {};                            // decode
};

inline constexpr double kPrefillWanted = 0.75, kDecodeWanted = 0.85;

// The FLOPs that a prompt of T tokens needs at least: every matmul once per token, the head for the last token only, and attention over the
// positions before.
double prefill_flops(const ModelConfig& config, int64_t T);

struct ModelSizes {
  int64_t prompt_tokens = 128, new_tokens = 64;
  int64_t batch = 1;  // sequences decoded together
  SamplingOptions sampling = {};
};

// Measures prefill of one prompt, then decoding of `batch` sequences that start with prompts of that length.
std::vector<ModelResult> measure_model(const Model& model, Ceilings& ceilings, int threads, const ModelSizes& sizes);

}  // namespace weft::bench
