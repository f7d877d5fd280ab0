#pragma once

#include <string>

#include "weft/device/device.h"
#include "weft/generate/sampler.h"

namespace weft::cli {

struct BenchModelOptions {
  std::string model, dtype;
  int threads = 1;
  bool json = false;
  bool int8 = false;                 // int8 weights
  int64_t batch = 1, context = 128;  // sequences decoded together; prompt tokens of each
  SamplingOptions sampling = {};
};

// weft bench --model NAME: times a model of this shape with random weights, in f32 and bf16 (or the given dtype).
int bench_model(const BenchModelOptions& options, Device& device);

}  // namespace weft::cli
