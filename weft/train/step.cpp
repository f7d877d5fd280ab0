#include "weft/train/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "weft/autograd/backward.h"
#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"

namespace weft {

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }

int64_t sequences_per_micro_batch(std::span<const TokenBatch> sequences, int64_t tokens) {
  const TokenBatch& first = sequences.front();
  const bool one_shape = std::all_of(sequences.begin(), sequences.end(),
                                     [&](const TokenBatch& each) { return each.rows == first.rows && each.tokens == first.tokens; });
  return one_shape ? sequences_per_micro_batch(int64_t(sequences.size()), int64_t(first.ids.size()), tokens) : 1;
}

int64_t sequences_per_micro_batch(int64_t sequences, int64_t sequence_tokens, int64_t tokens) {
  int64_t count = std::clamp(tokens / sequence_tokens, int64_t(1), sequences);
  while (sequences % count) --count;
  return count;
}

TokenBatch stacked(std::span<const TokenBatch> sequences) {
  TokenBatch all = sequences.front();
  for (const TokenBatch& each : sequences.subspan(1)) {
    all.rows += each.rows;
    all.ids.insert(all.ids.end(), each.ids.begin(), each.ids.end());
    all.targets.insert(all.targets.end(), each.targets.begin(), each.targets.end());
  }
  return all;
}

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const StepOptions& options)
    : model_(model),
      optimizer_(optimizer),
      options_(options),
      random_state_(weft::random_state(model.device(), options.seed)),
      count_(zeros(model.device(), {})),
      loss_(zeros(model.device(), {})),
      norm_(zeros(model.device(), {})),
      clip_(zeros(model.device(), {})) {
  optimizer.allocate_gradients();
}

// Writes ids and targets into the tensors that captured launches read.
void TrainingStep::set_micro_batch(const TokenBatch& batch) {
  if (!ids_ || ids_.shape() != Shape{batch.rows, batch.tokens}) {
    micro_batch_.forget();
    ids_ = batch.upload_ids(model_.device());
    targets_ = batch.upload_targets(model_.device());
    return;
  }
  ids_.write(batch.ids);
  targets_.write(batch.targets);
}

void TrainingStep::run_micro_batch() {
  const bool drops = model_.has_dropout();
  const Tensor loss = model_.loss(
      ids_, targets_, {.pad_id = kIgnored, .count = count_, .dropout = drops ? random_state_ : Tensor(), .recompute = options_.recompute});
  loss.backward();
  const NoGrad no_grad;
  add_assign(loss_, loss.detach());
  if (drops) advance_random_state(random_state_);
}

void TrainingStep::run(Replayed& launches, bool watched, const std::function<void()>& work) {
  watched ? work() : void(launches.run(model_.device().stream(), work));
}

// Launches are queued ahead of the device: at most about half a second of them, so that a stop need not wait for more.
void TrainingStep::limit_queue(double& queued_seconds) {
  constexpr double kMost = 0.5;
  queued_seconds += micro_batch_seconds_;
  if (queued_seconds < kMost || model_.device().stream().synchronous()) return;
  model_.device().synchronize();
  queued_seconds = 0;
}

StepResult TrainingStep::gradients(std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before) {
  const auto start = std::chrono::steady_clock::now();
  const bool watched = bool(before);  // the caller looks at every tensor: nothing is replayed
  StepResult result;
  for (const TokenBatch& each : sequences) {
    result.targets += each.counted();
    result.tokens += int64_t(each.ids.size());
  }
  check(result.targets > 0, "train", "the step has no target that counts");
  count_.write({float(result.targets)});
  run(begin_, watched, [&] {
    const NoGrad no_grad;
    optimizer_.zero_grad();
    zero(loss_);
  });
  const size_t at_once = size_t(sequences_per_micro_batch(sequences, options_.micro_batch_tokens)), count = sequences.size() / at_once;
  double queued_seconds = 0;
  for (size_t i = 0; i < sequences.size(); i += at_once) {
    report_progress({.what = "micro-batch", .done = int64_t(i / at_once), .total = int64_t(count)});
    if (before) before(int64_t(i));
    set_micro_batch(stacked(sequences.subspan(i, at_once)));
    run(micro_batch_, watched, [&] { run_micro_batch(); });
    limit_queue(queued_seconds);
  }
  report_progress({.what = "micro-batch", .done = int64_t(count), .total = int64_t(count)});
  run(end_, watched, [&] {
    GradientNormArgs args{.grads = {}, .max_norm = float(options_.clip), .norm = norm_.mut_view(), .clip = clip_.mut_view()};
    for (const Parameter& p : optimizer_.parameters()) args.grads.push_back(p.tensor.grad().view());
    gradient_norm(model_.device().stream(), args);
  });
  const auto number = [](float value) { return std::isnan(value) ? NAN : double(value); };  // the sign of a NaN means nothing
  result.loss = number(loss_.item<float>());
  result.gradient_norm = number(norm_.item<float>());
  micro_batch_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(count);
  return result;
}

void TrainingStep::apply(double learning_rate) {
  report_progress({.what = "update of the weights", .total = 1});
  optimizer_.set_learning_rate(learning_rate);
  optimizer_.begin_step();
  update_.run(model_.device().stream(), [&] { optimizer_.update(clip_); });
  report_progress({.what = "update of the weights", .done = 1, .total = 1});
}

}  // namespace weft
