// The parts of a TrainingStep that several ranks share. Not installed.
#pragma once

#include "weft/train/gradient_exchange.h"
#include "weft/train/step.h"

namespace weft {

struct TrainingStep::Shared {
  Shared(Optimizer& optimizer, const StepOptions& options, Communicator& ranks);

  // Checks that the optimizer owns this rank's ranges, and allocates the f32 tensors that the tree adds, which it returns: whole gradients,
  // or the ranges of their sums.
  std::vector<Tensor> open(Sharding sharding);

  Communicator& ranks;
  Optimizer& optimizer;
  ParameterShards shards;
  GradientExchange exchange;
  std::vector<Tensor> ranges;  // Sharding::gradients: the sums of the ranges that this rank owns, by parameter
  Tensor losses;               // of this rank's micro-batches
  double waited = 0;           // the communicator's seconds at the start of the step before
};

}  // namespace weft
