#pragma once

#include <cstdint>
#include <string>

namespace weft::cli {

struct BenchTrainOptions {
  std::string model, device, dtype;
  int threads = 0;
  int64_t pass_tokens = 0;  // 0: as `weft train` does
  bool json = false;
};

// weft bench --train NAME: a training step of a model of this shape, in f32 and bf16 (or the dtype asked for).
int bench_train(const BenchTrainOptions& options);

}  // namespace weft::cli
