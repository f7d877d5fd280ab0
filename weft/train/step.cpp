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

Tensor upload_ids(Device& device, const Unit& unit, const std::vector<int32_t>& ids) {
  return Tensor::from_host(device, {unit.rows, unit.tokens}, ids);
}

int64_t units_together(std::span<const Unit> units, int64_t tokens) {
  const int64_t count = int64_t(units.size()), size = int64_t(units.front().ids.size());
  const bool alike = std::all_of(units.begin(), units.end(),
                                 [&](const Unit& u) { return u.rows == units.front().rows && u.tokens == units.front().tokens; });
  return alike ? units_together(count, size, tokens) : 1;
}

int64_t units_together(int64_t units, int64_t unit_tokens, int64_t tokens) {
  int64_t together = std::clamp(tokens / unit_tokens, int64_t(1), units);
  while (units % together) --together;
  return together;
}

Unit joined(std::span<const Unit> units) {
  Unit all = units.front();
  for (const Unit& unit : units.subspan(1)) {
    all.rows += unit.rows;
    all.ids.insert(all.ids.end(), unit.ids.begin(), unit.ids.end());
    all.targets.insert(all.targets.end(), unit.targets.begin(), unit.targets.end());
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
  // Gradients live as long as the run; every pass adds to them.
  const MemoryScope scope(model.device(), MemoryUse::gradients);
  for (const NamedTensor& p : optimizer.parameters()) {
    grads_.push_back(zeros(model.device(), p.tensor.shape()));
    p.tensor.node()->grad = grads_.back();
  }
}

bool TrainingStep::drops() const {
  const ModelConfig& c = model_.config();
  if (!model_.adapters().empty() && model_.adapters().front().matrices.dropout > 0) return true;
  return c.embedding_dropout > 0 || c.attention_dropout > 0 || c.residual_dropout > 0;
}

// The pass's ids and targets, where the last one's were.
void TrainingStep::set_pass(const Unit& unit) {
  if (!ids_ || ids_.shape() != Shape{unit.rows, unit.tokens}) {
    pass_.forget();
    ids_ = upload_ids(model_.device(), unit, unit.ids);
    targets_ = upload_ids(model_.device(), unit, unit.targets);
    return;
  }
  ids_.write(unit.ids);
  targets_.write(unit.targets);
}

void TrainingStep::run_pass() {
  const Tensor loss =
      model_.loss(ids_, targets_,
                  {.pad_id = kIgnored, .count = count_, .dropout = drops() ? random_state_ : Tensor(), .recompute = options_.recompute});
  backward(loss);
  const NoGrad no_grad;
  add_assign(loss_, loss.detach());
  if (drops()) advance_random_state(random_state_);
}

void TrainingStep::run(Replayed& part, bool watched, const std::function<void()>& work) {
  watched ? work() : void(part.run(model_.device().stream(), work));
}

// Launches run ahead of a device. About half a second of them at most, so that a stop need not wait for more.
void TrainingStep::keep_close(double& ahead) {
  constexpr double kAhead = 0.5;
  ahead += pass_seconds_;
  if (ahead < kAhead || model_.device().stream().synchronous()) return;
  model_.device().synchronize();
  ahead = 0;
}

StepResult TrainingStep::gradients(std::span<const Unit> units, const std::function<void(int64_t)>& before) {
  Device& device = model_.device();
  const auto start = std::chrono::steady_clock::now();
  const bool watched = bool(before);  // somebody looks at every tensor: nothing is replayed
  StepResult result;
  for (const Unit& unit : units) {
    result.targets += unit.counted();
    result.tokens += int64_t(unit.ids.size());
  }
  check(result.targets > 0, "train", "the step has no targets that count");
  count_.write({float(result.targets)});
  run(begin_, watched, [&] {
    const NoGrad no_grad;
    for (const Tensor& grad : grads_) zero(grad);
    zero(loss_);
  });
  const size_t together = size_t(units_together(units, options_.pass_tokens)), passes = units.size() / together;
  double ahead = 0;
  for (size_t i = 0; i < units.size(); i += together) {
    report_progress({.what = "micro-batch", .done = int64_t(i / together), .total = int64_t(passes)});
    if (before) before(int64_t(i));
    set_pass(joined(units.subspan(i, together)));
    run(pass_, watched, [&] { run_pass(); });
    keep_close(ahead);
  }
  report_progress({.what = "micro-batch", .done = int64_t(passes), .total = int64_t(passes)});
  run(end_, watched, [&] {
    GradientNormArgs args{.grads = {}, .max_norm = float(options_.clip), .norm = norm_.mut_view(), .clip = clip_.mut_view()};
    for (const Tensor& grad : grads_) args.grads.push_back(grad.view());
    gradient_norm(device.stream(), args);
  });
  const auto number = [](float value) { return std::isnan(value) ? NAN : double(value); };  // a NaN has no sign that means anything
  result.loss = number(loss_.item<float>());
  result.gradient_norm = number(norm_.item<float>());
  pass_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(passes);
  return result;
}

void TrainingStep::apply(double learning_rate) {
  report_progress({.what = "update of the weights", .total = 1});
  optimizer_.set_rate(learning_rate);
  update_.run(model_.device().stream(), [&] { optimizer_.update(clip_); });
  report_progress({.what = "update of the weights", .done = 1, .total = 1});
}

}  // namespace weft
