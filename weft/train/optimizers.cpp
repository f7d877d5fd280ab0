#include "weft/train/optimizers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/check.h"
#include "weft/ops/lion/lion.h"
#include "weft/ops/muon/muon.h"
#include "weft/ops/sgd/sgd.h"

namespace weft {
namespace {

void check_factor(const char* name, double value) {
  check(value >= 0 && value < 1, "optimizer", name, " is ", value, ", expected zero or more and below 1");
}

void check_eps(double eps) { check(std::isfinite(eps) && eps >= 0, "optimizer", "eps is ", eps, ", expected zero or more"); }

}  // namespace

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}),
      options_(options),
      all_(this->parameters().size()) {
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  check_eps(options.eps);
  std::iota(all_.begin(), all_.end(), size_t(0));
  for (size_t i = 0; i < all_.size(); ++i) add_state({.m = true, .v = true});
}

void AdamW::launch(const Tensor& grad_scale) { launch_adamw(all_, {options_.beta1, options_.beta2, options_.eps}, grad_scale); }

SGD::SGD(std::vector<Parameter> parameters, const SGDOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}), options_(options) {
  check_factor("momentum", options.momentum);
  check(!options.nesterov || options.momentum > 0, "optimizer", "nesterov needs a momentum above 0");
  for (size_t i = 0; i < this->parameters().size(); ++i) add_state({.m = options.momentum > 0, .v = false});
}

void SGD::launch(const Tensor& grad_scale) {
  SgdArgs args{{}, learning_rate_view(), grad_scale.view(), float(options_.momentum), options_.nesterov};
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& p = parameter(i).tensor;
    args.tensors.push_back({p.mut_view(), p.grad().view(), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i)});
  }
  sgd(device().stream(), args);
}

Lion::Lion(std::vector<Parameter> parameters, const LionOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}), options_(options) {
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  for (size_t i = 0; i < this->parameters().size(); ++i) add_state({.m = true, .v = false});
}

void Lion::launch(const Tensor& grad_scale) {
  LionArgs args{{}, learning_rate_view(), grad_scale.view(), options_.beta1, options_.beta2};
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& p = parameter(i).tensor;
    args.tensors.push_back({p.mut_view(), p.grad().view(), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i)});
  }
  lion(device().stream(), args);
}

Muon::Muon(std::vector<Parameter> parameters, const MuonOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}), options_(options) {
  check_factor("momentum", options.momentum);
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  check_eps(options.eps);
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const bool matrix = rules(parameter(i).role).orthogonalise && parameter(i).tensor.rank() == 2;
    (matrix ? matrices_ : others_).push_back(i);
    add_state({.m = true, .v = !matrix});
  }
}

// An orthogonal direction has elements of size 1 / sqrt(longer side); AdamW's are about 0.2 (Liu et al., 2025).
void Muon::launch(const Tensor& grad_scale) {
  launch_adamw(others_, {options_.beta1, options_.beta2, options_.eps}, grad_scale);
  MuonArgs args{{}, learning_rate_view(), grad_scale.view(), options_.momentum};
  for (size_t i : matrices_) {
    const Tensor& p = parameter(i).tensor;
    args.tensors.push_back({p.mut_view(), p.grad().view(), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i),
                            0.2f * std::sqrt(float(std::max(p.shape()[0], p.shape()[1])))});
  }
  muon(device().stream(), args);
}

}  // namespace weft
