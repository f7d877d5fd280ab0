// Times a training step that several ranks share: tokens per second of all together, and the communication that nothing hid.
#pragma once

#include <string>
#include <vector>

#include "bench/train.h"
#include "weft/comm/communicator.h"
#include "weft/train/sharding.h"

namespace weft::bench {

struct SharedTrainResult {
  std::string dtype;
  int64_t tokens = 0;          // of a step, of all ranks
  int steps = 0;               // timed
  double seconds = 0;          // median of whole steps, on rank 0
  std::vector<double> waited;  // by rank: seconds a step, for other ranks or bytes under way
};

// Collective; the result is the same on all ranks. Throws if the ranks cannot share the step.
SharedTrainResult measure_shared_training(const TrainShape& shape, Device& device, Communicator& ranks, Sharding sharding);

}  // namespace weft::bench
