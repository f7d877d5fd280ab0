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

bool is_matrix(const Parameter& p) { return rules(p.role).orthogonalise && p.tensor.rank() == 2; }

}  // namespace

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options, std::vector<Range> owned)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}, std::move(owned)),
      options_(options),
      all_(this->parameters().size()) {
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  check_eps(options.eps);
  std::iota(all_.begin(), all_.end(), size_t(0));
  for (size_t i = 0; i < all_.size(); ++i) add_state({.m = true, .v = true});
}

void AdamW::launch(const Tensor& grad_scale) { launch_adamw(all_, {options_.beta1, options_.beta2, options_.eps}, grad_scale); }

SGD::SGD(std::vector<Parameter> parameters, const SGDOptions& options, std::vector<Range> owned)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}, std::move(owned)),
      options_(options) {
  check_factor("momentum", options.momentum);
  check(!options.nesterov || options.momentum > 0, "optimizer", "nesterov needs a momentum above 0");
  for (size_t i = 0; i < this->parameters().size(); ++i) add_state({.m = options.momentum > 0, .v = false});
}

void SGD::launch(const Tensor& grad_scale) {
  SgdArgs args{{}, learning_rate_view(), grad_scale.view(), float(options_.momentum), options_.nesterov};
  for (size_t i = 0; i < parameters().size(); ++i) {
    if (!owns(i)) continue;
    args.tensors.push_back({weights(i), gradient(i), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i)});
  }
  if (!args.tensors.empty()) sgd(device().stream(), args);
}

Lion::Lion(std::vector<Parameter> parameters, const LionOptions& options, std::vector<Range> owned)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}, std::move(owned)),
      options_(options) {
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  for (size_t i = 0; i < this->parameters().size(); ++i) add_state({.m = true, .v = false});
}

void Lion::launch(const Tensor& grad_scale) {
  LionArgs args{{}, learning_rate_view(), grad_scale.view(), options_.beta1, options_.beta2};
  for (size_t i = 0; i < parameters().size(); ++i) {
    if (!owns(i)) continue;
    args.tensors.push_back({weights(i), gradient(i), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i)});
  }
  if (!args.tensors.empty()) lion(device().stream(), args);
}

Muon::Muon(std::vector<Parameter> parameters, const MuonOptions& options, std::vector<Range> owned)
    : Optimizer(std::move(parameters), options.learning_rate, {options.weight_decay, options.decay_all}, std::move(owned)),
      options_(options) {
  check_factor("momentum", options.momentum);
  check_factor("beta1", options.beta1);
  check_factor("beta2", options.beta2);
  check_eps(options.eps);
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const bool matrix = is_matrix(parameter(i));
    check(!matrix || !owns(i) || owns_all(i), "muon", "the matrix ", parameter(i).name, " is cut: it must be owned as a whole");
    (matrix ? matrices_ : others_).push_back(i);
    add_state({.m = true, .v = !matrix});
  }
}

std::vector<bool> Muon::whole_of(const std::vector<Parameter>& parameters) {
  std::vector<bool> whole;
  for (const Parameter& p : parameters) whole.push_back(is_matrix(p));
  return whole;
}

bool Muon::whole(size_t i) const { return is_matrix(parameter(i)); }

// An orthogonal direction has elements of size 1 / sqrt(longer side); AdamW's are about 0.2 (Liu et al., 2025).
void Muon::launch(const Tensor& grad_scale) {
  launch_adamw(others_, {options_.beta1, options_.beta2, options_.eps}, grad_scale);
  MuonArgs args{{}, learning_rate_view(), grad_scale.view(), options_.momentum};
  for (size_t i : matrices_) {
    if (!owns(i)) continue;
    const Shape& shape = parameter(i).tensor.shape();
    args.tensors.push_back({weights(i), gradient(i), slots(i).m.mut_view(), slots(i).master.mut_view(), decay_of(i),
                            0.2f * std::sqrt(float(std::max(shape[0], shape[1])))});
  }
  if (!args.tensors.empty()) muon(device().stream(), args);
}

}  // namespace weft
