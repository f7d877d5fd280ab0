#include "weft/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/ops/adamw/adamw.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/lion/lion.h"
#include "weft/ops/muon/muon.h"
#include "weft/ops/sgd/sgd.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {
constexpr std::string_view kNames[] = {"adamw", "sgd", "lion", "muon"};

void check_options(const OptimizerOptions& o) {
  check(std::isfinite(o.weight_decay) && o.weight_decay >= 0, "optimizer", "weight_decay is ", o.weight_decay, ", expected zero or more");
  check(o.beta1 >= 0 && o.beta1 < 1, "optimizer", "beta1 is ", o.beta1, ", expected zero or more and below 1");
  check(o.beta2 >= 0 && o.beta2 < 1, "optimizer", "beta2 is ", o.beta2, ", expected zero or more and below 1");
  check(o.momentum >= 0 && o.momentum < 1, "optimizer", "momentum is ", o.momentum, ", expected zero or more and below 1");
  check(std::isfinite(o.eps) && o.eps >= 0, "optimizer", "eps is ", o.eps, ", expected zero or more");
  check(!o.nesterov || o.momentum > 0, "optimizer", "nesterov needs a momentum above 0");
}
}  // namespace

std::string_view name(OptimizerKind kind) { return kNames[size_t(kind)]; }

OptimizerKind optimizer_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return OptimizerKind(i);
  fail(ErrorCode::invalid_argument, "optimizer", "there is no optimizer '", name, "', expected adamw, sgd, lion or muon");
}

bool Optimizer::orthogonal(const NamedTensor& parameter) {
  const auto has = [&](const char* part) { return parameter.name.find(part) != std::string::npos; };
  return parameter.tensor.rank() == 2 && !has("embed") && !has("wte") && !has("wpe") && !has("lm_head");
}

Tensor Optimizer::add_state(const std::string& prefix, const NamedTensor& parameter) {
  const MemoryScope scope(device_, prefix == "master" ? MemoryUse::weights : MemoryUse::optimizer);
  const Tensor tensor = zeros(device_, parameter.tensor.shape());
  state_.push_back({prefix + "." + parameter.name, tensor});
  return tensor;
}

Optimizer::Optimizer(Device& device, std::vector<NamedTensor> parameters, const OptimizerOptions& options)
    : device_(device),
      options_(options),
      parameters_(std::move(parameters)),
      learning_rate_(zeros(device, {})),
      step_(zeros(device, {}, DType::i32)) {
  check_options(options_);
  const OptimizerKind kind = options_.kind;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const NamedTensor& p = parameters_[i];
    check(p.tensor.requires_grad(), "optimizer", "parameter ", p.name, " requires no gradient");
    const bool matrix = kind == OptimizerKind::muon && orthogonal(p);
    (matrix ? matrices_ : elementwise_).push_back(i);
    Slots slots;
    if (kind != OptimizerKind::sgd || options_.momentum > 0) slots.m = add_state("m", p);
    if (kind == OptimizerKind::adamw || (kind == OptimizerKind::muon && !matrix)) slots.v = add_state("v", p);
    if (p.tensor.dtype() == DType::bf16) {
      slots.master = add_state("master", p);
      copy(p.tensor.detach(), slots.master);
    }
    slots_.push_back(std::move(slots));
  }
}

void Optimizer::step(double learning_rate, const Tensor& grad_scale) {
  set_rate(learning_rate);
  update(grad_scale);
}

void Optimizer::set_rate(double learning_rate) {
  for (const NamedTensor& p : parameters_)
    check(p.tensor.grad().defined(), "optimizer", "parameter ", p.name, " has no gradient: nothing in the loss depends on it");
  check(steps_ < INT32_MAX, "optimizer", "step ", steps_, " is too large");
  device_.synchronize();  // gradients of a pass in which a kernel found bad data are not applied
  learning_rate_.write({float(learning_rate)});
  step_.write({int32_t(++steps_)});
}

void Optimizer::update(const Tensor& grad_scale) {
  const NoGrad no_grad;
  switch (options_.kind) {
    case OptimizerKind::adamw: return update_adamw(elementwise_, grad_scale);
    case OptimizerKind::sgd: return update_sgd(grad_scale);
    case OptimizerKind::lion: return update_lion(grad_scale);
    case OptimizerKind::muon: update_adamw(elementwise_, grad_scale); return update_muon(matrices_, grad_scale);
  }
}

void Optimizer::update_adamw(const std::vector<size_t>& which, const Tensor& grad_scale) {
  AdamwArgs args{{}, learning_rate_.view(), step_.view(), grad_scale.view(), options_.beta1, options_.beta2, options_.eps};
  for (size_t i : which)
    args.tensors.push_back({parameters_[i].tensor.mut_view(), parameters_[i].tensor.grad().view(), slots_[i].m.mut_view(),
                            slots_[i].v.mut_view(), slots_[i].master.mut_view(), decay_of(i)});
  adamw(device_.stream(), args);
}

void Optimizer::update_sgd(const Tensor& grad_scale) {
  SgdArgs args{{}, learning_rate_.view(), grad_scale.view(), float(options_.momentum), options_.nesterov};
  for (size_t i = 0; i < parameters_.size(); ++i)
    args.tensors.push_back({parameters_[i].tensor.mut_view(), parameters_[i].tensor.grad().view(), slots_[i].m.mut_view(),
                            slots_[i].master.mut_view(), decay_of(i)});
  sgd(device_.stream(), args);
}

void Optimizer::update_lion(const Tensor& grad_scale) {
  LionArgs args{{}, learning_rate_.view(), grad_scale.view(), options_.beta1, options_.beta2};
  for (size_t i = 0; i < parameters_.size(); ++i)
    args.tensors.push_back({parameters_[i].tensor.mut_view(), parameters_[i].tensor.grad().view(), slots_[i].m.mut_view(),
                            slots_[i].master.mut_view(), decay_of(i)});
  lion(device_.stream(), args);
}

// A direction of unit singular values has elements of size 1 / sqrt(longer side); AdamW's are about 0.2 (Liu et al., 2025).
void Optimizer::update_muon(const std::vector<size_t>& which, const Tensor& grad_scale) {
  MuonArgs args{{}, learning_rate_.view(), grad_scale.view(), options_.momentum};
  for (size_t i : which) {
    const Shape& shape = parameters_[i].tensor.shape();
    args.tensors.push_back({parameters_[i].tensor.mut_view(), parameters_[i].tensor.grad().view(), slots_[i].m.mut_view(),
                            slots_[i].master.mut_view(), decay_of(i), 0.2f * std::sqrt(float(std::max(shape[0], shape[1])))});
  }
  muon(device_.stream(), args);
}

}  // namespace weft
