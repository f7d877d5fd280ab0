// The capture of a step whose loss is not finite: the weights before it, its sequences and the state of its random numbers, in one
// file. A replay computes the same step again and checks every tensor on the way.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "weft/train/config.h"
#include "weft/train/step.h"

namespace weft {

// The first tensor of a computation that is not finite.
struct BadTensor {
  std::string op;        // "matmul"; "weights" if one of them was not finite before the step
  std::string tensor;    // "output 0 [8, 64]", "gradient of input 1 [64, 64]", "model.norm.weight [64]"
  int64_t sequence = 0;  // of the step, the first of its micro-batch
  int64_t order = 0;     // among the tensors of the micro-batch, from 1
};

// Computes the gradients of the sequences again, from the current random state; nullopt if all tensors are finite. Overwrites the
// gradients of the model.
std::optional<BadTensor> find_bad_tensor(TrainingStep& step, const Optimizer& optimizer, std::span<const TokenBatch> sequences);

struct CaptureFacts {
  int64_t step = 0;
  double loss = 0, gradient_norm = 0;
  std::string bad = {};  // of several ranks: the first tensor that is not finite, and its rank; else empty
};

void write_capture(const std::string& path, const TrainConfig& config, const Model& model, const Tensor& random_state,
                   std::span<const TokenBatch> sequences, const CaptureFacts& facts);

struct Replay {
  CaptureFacts captured;
  StepResult result;  // of the step, computed again
  std::optional<BadTensor> bad;
};
Replay replay_capture(const std::string& path, const std::string& device, int threads);

// "matmul: output 0 [8, 64] is the first that is not finite (tensor 17 of the micro-batch that starts at sequence 2)"
std::string bad_text(const BadTensor& bad);

}  // namespace weft
