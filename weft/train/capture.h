// A step whose loss is not finite, kept: the weights before it, what it read and the state of its random numbers, in one
// file. Replaying it computes the same step again and looks at every tensor on the way.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "weft/train/config.h"
#include "weft/train/step.h"

namespace weft {

// Where a computation stopped being finite.
struct BadTensor {
  std::string op;      // "matmul"; "weights" where one of them was bad to begin with
  std::string tensor;  // "output 0 [8, 64]", "gradient of input 1 [64, 64]", "model.norm.weight [64]"
  int64_t unit = 0;    // of the step, the first of its pass
  int64_t order = 0;   // how many tensors came before it in the pass
};

// Computes the gradients of the units again, from the random state `state`; nothing where all is finite. The gradients of the
// model are left as they come.
std::optional<BadTensor> find_bad_tensor(TrainingStep& step, const Optimizer& optimizer, std::span<const Unit> units);

struct CaptureFacts {
  int64_t step = 0;
  double loss = 0, gradient_norm = 0;
};

void write_capture(const std::string& path, const TrainConfig& config, const Model& model, const Tensor& random_state,
                   std::span<const Unit> units, const CaptureFacts& facts);

struct Replay {
  CaptureFacts captured;
  StepResult result;  // of the step, computed again
  std::optional<BadTensor> bad;
};
Replay replay_capture(const std::string& path, const std::string& device, int threads);

std::string bad_text(
    const BadTensor& bad);  // "matmul: output 0 [8, 64] is the first that is not finite (in the pass from unit 2 on, tensor 17)"

}  // namespace weft
