#include "weft/train/step.h"

#include <cmath>

#include "weft/autograd/backward.h"
#include "weft/base/check.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"

namespace weft {

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }

Tensor upload_ids(Device& device, const Unit& unit, const std::vector<int32_t>& ids) { return Tensor::from_host(device, {unit.rows, unit.tokens}, ids); }

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const StepOptions& options)
    : model_(model),
      optimizer_(optimizer),
      options_(options),
      random_state_(weft::random_state(model.device(), options.seed)),
      count_(zeros(model.device(), {})),
      loss_(zeros(model.device(), {})) {
  // Gradients live as long as the run; every unit adds to them.
  const MemoryScope scope(model.device(), MemoryUse::gradients);
  for (const NamedTensor& p : optimizer.parameters()) {
    grads_.push_back(zeros(model.device(), p.tensor.shape()));
    p.tensor.node()->grad = grads_.back();
  }
}

bool TrainingStep::drops() const {
  const ModelConfig& c = model_.config();
  return c.embedding_dropout > 0 || c.attention_dropout > 0 || c.residual_dropout > 0;
}

StepResult TrainingStep::gradients(std::span<const Unit> units, const std::function<void(int64_t)>& before) {
  Device& device = model_.device();
  StepResult result;
  for (const Unit& unit : units) {
    result.targets += unit.counted();
    result.tokens += int64_t(unit.ids.size());
  }
  check(result.targets > 0, "train", "the step has no targets that count");
  {
    const NoGrad no_grad;
    for (const Tensor& grad : grads_) zero(grad);
    fill(count_, double(result.targets));
    zero(loss_);
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    if (before) before(int64_t(i));
    const Tensor loss = model_.loss(upload_ids(device, unit, unit.ids), upload_ids(device, unit, unit.targets),
                                    {.pad_id = kIgnored, .count = count_, .dropout = drops() ? random_state_ : Tensor(), .recompute = options_.recompute});
    backward(loss);
    const NoGrad no_grad;
    add_assign(loss_, loss.detach());
    if (drops()) advance_random_state(random_state_);
  }
  const GradientNorm norm = gradient_norm(device, grads_, float(options_.clip));
  clip_ = norm.clip;
  result.loss = loss_.item<float>();
  result.gradient_norm = norm.norm.item<float>();
  return result;
}

void TrainingStep::apply(double learning_rate) { optimizer_.step(learning_rate, clip_); }

}  // namespace weft
