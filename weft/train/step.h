// One optimizer step, the same code on every device and on the counting one.
//
// Sequences of one shape go forward and backward as micro-batches: as many at a time as micro_batch_tokens allows and as divide
// the step evenly. Larger matmuls are faster, and gradients are written to memory less often. The loss is the sum over all targets
// of the step divided by their number. Gradients and loss of each micro-batch are computed from zero and added by a binary tree over
// its index (weft/train/gradient_tree.h); micro-batch i draws its dropout from the step's random state + i. The bits of a step
// therefore depend on its sequences and on micro_batch_tokens alone: not on threads, nor on how --batch and --accumulate split the
// step, nor on who computed which micro-batch.
//
// If the device captures graphs, a step after the first is a replay: ids, targets, bounds of documents, their number, the learning rate and
// the step number are written into device memory, and the launches are those of the step before. A micro-batch of another shape is captured
// anew.
//
// Several ranks share a step (weft/train/sharding.h): each is given the sequences of its own micro-batches, and all have the same weights
// after it, with the bits that one process would have. Then nothing is captured, and a listener must not throw: a rank that leaves a
// step alone keeps the others waiting. A wish to stop is passed to gradients(), and all ranks hear of it at the same step.
//
// Each micro-batch is reported (weft/base/progress.h). A listener may stop the step there by throwing: weights, optimizer and random
// state are then unchanged, the gradients are incomplete.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "weft/comm/communicator.h"
#include "weft/data/dataset.h"
#include "weft/device/replayed.h"
#include "weft/models/model.h"
#include "weft/train/gradient_tree.h"
#include "weft/train/optimizer.h"
#include "weft/train/sharding.h"

namespace weft {

struct StepOptions {
  double clip = 1;  // the largest norm of all gradients; 0: no clipping
  bool recompute = false;
  uint64_t seed = 0;                  // of dropout
  int64_t micro_batch_tokens = 2048;  // at most, in one forward and backward pass
  int64_t bucket_elements = 0;  // of several ranks: of gradients that travel together; changes no bits; 0: as ParameterShards has them
};

struct StepResult {
  double loss = 0, gradient_norm = 0;
  int64_t tokens = 0;   // read
  int64_t targets = 0;  // that count in the loss
  // Of several ranks: all above is of the whole step and the same on every rank.
  bool stop = false;                        // a rank wished to stop: nothing was computed
  std::vector<double> seconds_waited = {};  // by rank, for other ranks or bytes under way, since the start of the step before
  bool finite() const;
};

class TrainingStep {
 public:
  // Of several ranks: the optimizer owns the ranges that make_optimizer() gives it. `ranks` outlives the step.
  TrainingStep(Model& model, Optimizer& optimizer, const StepOptions& options, Communicator& ranks = alone(),
               Sharding sharding = Sharding::optimizer);
  ~TrainingStep();

  // Computes the loss and the gradients of these sequences; apply() then updates the weights. `before` is called ahead of each
  // micro-batch with the index of its first sequence. Of several ranks: `sequences` are those of this rank's micro-batches
  // (share_of()), in order, and the index counts them; `stop` is this rank's wish to stop before the step.
  StepResult gradients(std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before = {}, bool stop = false);
  // Computes the micro-batches [first, first + count) of the step of these sequences alone, a node of its tree, and returns their loss.
  // The gradients are then the sum of the node, the random state is unchanged: nodes can be computed in any order, and by others.
  double gradients_of_node(std::span<const TokenBatch> sequences, int64_t first, int64_t count);
  // Allocates the partial sums of a step of so many micro-batches of this rank; gradients() does if they are missing.
  void reserve(int64_t micro_batches) { tree_.reserve(micro_batches); }
  // Updates the weights. Not to be called after a result that is not finite.
  void apply(double learning_rate);

  // Of several ranks: additions to each parameter's gradient in a backward pass, counted in the first one, whose communication nothing
  // hides. A rehearsal with planned_ranks() can count them before; empty: not known.
  const std::vector<int>& additions() const;
  void set_additions(std::vector<int> additions);

  // The state of dropout's random numbers at the start of the next step; part of a checkpoint. Each micro-batch takes one number of it.
  const Tensor& random_state() const { return random_state_; }

 private:
  struct Node;
  struct Shared;
  struct WholeStep;
  void sum_node(const Node& node, const std::function<void(int64_t)>& before);
  void set_micro_batch(const TokenBatch& batch);
  void run_micro_batch();
  void run(Replayed& launches, bool watched, const std::function<void()>& work);
  void limit_queue(double& queued_seconds);
  StepResult shared_gradients(std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before, bool stop);
  WholeStep agree(std::span<const TokenBatch> sequences, bool stop);
  void sum_shared(const WholeStep& step, std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before);
  double shared_loss_and_norm(const WholeStep& step);

  Model& model_;
  Optimizer& optimizer_;
  StepOptions options_;
  Communicator& ranks_;
  Sharding sharding_;
  Tensor random_state_, count_, share_, loss_, norm_, clip_;
  Tensor ids_, targets_, documents_, real_, micro_batch_random_;  // of the current micro-batch
  std::unique_ptr<Shared> shared_;                                // null for a single rank
  GradientTree tree_;                                             // of loss and gradients; with several ranks of gradients only
  Replayed begin_, micro_batch_, end_, update_;
  double micro_batch_seconds_ = 1;  // in the step before; before the first step: long enough to wait for each
};

// The number of sequences in a micro-batch of at most `tokens` tokens: divides the number of sequences; at least one.
int64_t sequences_per_micro_batch(std::span<const TokenBatch> sequences, int64_t tokens);
int64_t sequences_per_micro_batch(int64_t sequences, int64_t sequence_tokens, int64_t tokens);  // of one shape

}  // namespace weft
