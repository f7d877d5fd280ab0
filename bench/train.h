// Times a training step of a whole model (random weights and data) against the multiply-add (or bf16 dot) peak, with a breakdown by op.
#pragma once

#include <string>

#include "bench/ceilings.h"
#include "bench/breakdown.h"
#include "weft/models/config.h"

namespace weft::bench {

struct TrainResult {
  std::string dtype, ceiling;
  int64_t tokens = 0;
  double seconds = 0;  // median of whole steps
  double flops = 0;    // of matmuls and attention only, from the counting device
  double peak = 0;     // FLOP/s
  double ratio = 0;    // achieved over ceiling
  int attempts = 1;
  bool disturbed = false;  // the ceiling changed by more than a tenth meanwhile, in every attempt, or was exceeded
  Breakdown breakdown;     // of a few more steps, timed launch by launch
};

// A step of `sequences` of `tokens` each, in micro-batches of up to `pass_tokens`.
struct TrainShape {
  ModelConfig model;
  int64_t sequences = 8, tokens = 256, pass_tokens = 2048;
  DType dtype = DType::f32;
};

// The trainer's own step: forward, backward, clipping, AdamW.
TrainResult measure_training(const TrainShape& shape, Device& device, Ceilings& ceilings, int threads);

}  // namespace weft::bench
