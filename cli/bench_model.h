#pragma once

#include <string>

namespace weft::cli {

struct BenchModelOptions {
  std::string model, device, dtype;
  int threads = 0;
  bool json = false;
};

// weft bench --model NAME: a model of this shape with random weights, in f32 and bf16 (or the dtype asked for).
int bench_model(const BenchModelOptions& options);

}  // namespace weft::cli
