// One optimizer step, the same code on every device and on the counting one.
//
// Units of one shape go forward and backward together, as many as pass_tokens has room for and divide the step evenly: larger
// products, and gradients that go to memory less often. The gradients of a pass are added to the f32 gradients, in order.
// The loss is the sum over all targets of the step divided by their number. So the bits depend on the units of the step
// and on pass_tokens alone: not on threads, and not on what of the step is called a batch and what accumulation.
//
// Where the device captures, a step after the first is replayed: ids, targets, their number, the learning rate and the step
// are written into device memory, and the launches are those of the step before. Passes of another shape begin anew.
//
// Each pass is reported (weft/base/progress.h) as a micro-batch of the step. A listener may stop there: the gradients are then
// those of no step, weights and optimizer are as before, and the random state may have moved on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "weft/device/replayed.h"
#include "weft/models/model.h"
#include "weft/train/dataset.h"
#include "weft/train/optimizer.h"

namespace weft {

struct StepOptions {
  double clip = 1;  // the largest norm of all gradients together; 0: none
  bool recompute = false;
  uint64_t seed = 0;           // of dropout
  int64_t pass_tokens = 2048;  // in one forward and backward pass, at most
};

struct StepResult {
  double loss = 0, gradient_norm = 0;
  int64_t tokens = 0;   // read
  int64_t targets = 0;  // that counted
  bool finite() const;
};

class TrainingStep {
 public:
  TrainingStep(Model& model, Optimizer& optimizer, const StepOptions& options);

  // The gradients of these units, and the loss. Nothing is updated; apply() does that.
  // `before` is told the number of the first unit of each pass as its turn comes.
  StepResult gradients(std::span<const Unit> units, const std::function<void(int64_t)>& before = {});
  // Where the result is not finite, it must not be called: the weights stay what they were.
  void apply(double learning_rate);

  // The state of dropout's random numbers; part of a checkpoint.
  const Tensor& random_state() const { return random_state_; }

 private:
  bool drops() const;
  void set_pass(const Unit& unit);
  void run_pass();
  void run(Replayed& part, bool watched, const std::function<void()>& work);
  void keep_close(double& ahead);

  Model& model_;
  Optimizer& optimizer_;
  StepOptions options_;
  std::vector<Tensor> grads_;  // f32, one per parameter
  Tensor random_state_, count_, loss_, norm_, clip_;
  Tensor ids_, targets_;  // of the pass whose turn it is
  Replayed begin_, pass_, end_, update_;
  double pass_seconds_ = 1;  // that a pass of the last step took; no step yet: long enough to wait for each
};

// How many units make up a pass of at most `tokens`: all passes have as many; one at least.
int64_t units_together(std::span<const Unit> units, int64_t tokens);
int64_t units_together(int64_t units, int64_t unit_tokens, int64_t tokens);  // of one shape
Unit joined(std::span<const Unit> units);                                    // their rows, one after the other

// ids or targets of a unit on a device, [rows, tokens].
Tensor upload_ids(Device& device, const Unit& unit, const std::vector<int32_t>& ids);

}  // namespace weft
