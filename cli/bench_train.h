#pragma once

#include <cstdint>
#include <string>

#include "weft/comm/communicator.h"
#include "weft/device/device.h"
#include "weft/train/sharding.h"

namespace weft::cli {

struct BenchTrainOptions {
  std::string model, dtype;
  int threads = 1;
  int64_t pass_tokens = 0;          // 0: as `weft train`
  int64_t batch = 0, sequence = 0;  // 0: as in bench::TrainShape
  bool json = false;
};

// weft bench --train NAME: times a training step of a model of this shape, in f32 and bf16 (or the given dtype).
int bench_train(const BenchTrainOptions& options, Device& device);
// The same under mpirun or srun, where all ranks share a step; rank 0 prints.
int bench_shared_train(const BenchTrainOptions& options, Device& device, Communicator& ranks, Sharding sharding);

}  // namespace weft::cli
