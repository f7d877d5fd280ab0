#include "weft/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "weft/autograd/backward.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/ops/adamw/adamw.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/gradient_home.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

Device& device_of(const std::vector<Parameter>& parameters) {
  check(!parameters.empty(), "optimizer", "there are no parameters to update");
  return parameters.front().tensor.device();
}

// Whether all gradients lie in the memory of `whole`.
bool all_within(const std::vector<Parameter>& parameters, const Tensor& whole) {
  const auto within = [&](const Parameter& p) { return p.tensor.grad() && p.tensor.grad().view().buffer == whole.view().buffer; };
  return std::all_of(parameters.begin(), parameters.end(), within);
}

// The first element of each parameter's gradient in one tensor of all, then the size of that tensor. Gradients of one home
// (weft/tensor/gradient_home.h) follow each other.
std::vector<int64_t> places_in_one_tensor(const std::vector<Parameter>& parameters) {
  constexpr int64_t kMultiple = 64;  // elements: a gradient or a home starts at 256 bytes, as in memory of its own
  int64_t end = 0;
  const auto reserve = [&](int64_t elements) { return std::exchange(end, end + ceil_div(elements, kMultiple) * kMultiple); };
  std::vector<int64_t> firsts;
  std::map<const GradientHome*, int64_t> homes;
  for (const Parameter& p : parameters) {
    const Node& leaf = *p.tensor.node();
    if (leaf.home && !homes.contains(leaf.home.get())) homes[leaf.home.get()] = reserve(leaf.home->elements());
    firsts.push_back(leaf.home ? homes[leaf.home.get()] + leaf.home->first(leaf.home_place) : reserve(p.tensor.numel()));
  }
  firsts.push_back(end);
  return firsts;
}

}  // namespace

Optimizer::Optimizer(std::vector<Parameter> parameters, double learning_rate, Decay decay, std::vector<Range> owned)
    : parameters_(std::move(parameters)),
      device_(device_of(parameters_)),
      learning_rate_(learning_rate),
      decay_(decay),
      owned_(std::move(owned)),
      rate_scalar_(zeros(device_, {})),
      step_scalar_(zeros(device_, {}, DType::i32)) {
  check(std::isfinite(decay.weight_decay) && decay.weight_decay >= 0, "optimizer", "weight_decay is ", decay.weight_decay,
        ", expected zero or more");
  if (owned_.empty())
    for (const Parameter& p : parameters_) owned_.push_back({0, p.tensor.numel()});
  check(owned_.size() == parameters_.size(), "optimizer", "got ", owned_.size(), " ranges for ", parameters_.size(), " parameters");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = parameters_[i];
    if (p.name.empty()) p.name = std::to_string(i);
    check(p.tensor.requires_grad(), "optimizer", "parameter ", p.name, " requires no gradient");
    check(&p.tensor.device() == &device_, "optimizer", "parameter ", p.name, " is on another device than parameter ",
          parameters_.front().name);
    check(owned_[i].first >= 0 && owned_[i].count >= 0 && owned_[i].end() <= p.tensor.numel(), "optimizer", "the elements ",
          owned_[i].first, " to ", owned_[i].end(), " are not within parameter ", p.name, " of shape ", p.tensor.shape());
  }
}

Tensor Optimizer::zeros_of(const char* kind, size_t parameter) {
  const MemoryScope scope(device_, kind == std::string_view("master") ? MemoryUse::weights : MemoryUse::optimizer);
  const Parameter& p = parameters_[parameter];
  StatePart part{join(kind, ".", p.name), parameter, owned_[parameter], {}};
  if (owns_all(parameter))
    part.tensor = zeros(device_, p.tensor.shape());
  else if (owns(parameter))
    part.tensor = zeros(device_, {part.range.count});
  if (part.tensor) state_.push_back({part.name, part.tensor});
  return state_parts_.emplace_back(std::move(part)).tensor;
}

void Optimizer::add_state(Moments moments) {
  const size_t i = slots_.size();
  const Parameter& p = parameters_[i];
  Slots slots;
  if (moments.m) slots.m = zeros_of("m", i);
  if (moments.v) slots.v = zeros_of("v", i);
  if (p.tensor.dtype() == DType::bf16) {
    slots.master = zeros_of("master", i);
    if (owns(i)) copy(range_of(p.tensor, owned_[i]), range_of(slots.master, {0, owned_[i].count}));
  }
  slots_.push_back(std::move(slots));
}

float Optimizer::decay_of(size_t i) const { return decay_.all || rules(parameters_[i].role).decays ? float(decay_.weight_decay) : 0.0f; }

void Optimizer::step(const Tensor& grad_scale) {
  begin_step();
  if (!grad_scale && !one_) one_ = full(device_, {}, 1);
  update(grad_scale ? grad_scale : one_);
}

void Optimizer::begin_step() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    check(!owns(i) || (gradient_ranges_.empty() ? parameters_[i].tensor.grad() : gradient_ranges_[i]).defined(), "optimizer", "parameter ",
          parameters_[i].name, " has no gradient: nothing in the loss depends on it");
  check(steps_ < INT32_MAX, "optimizer", "step ", steps_, " is too large");
  device_.synchronize();  // raises what a kernel of the backward pass found wrong: such gradients are not applied
  rate_scalar_.write({float(learning_rate_)});
  step_scalar_.write({int32_t(++steps_)});
}

void Optimizer::update(const Tensor& grad_scale) {
  const NoGrad no_grad;
  launch(grad_scale);
}

void Optimizer::zero_grad() {
  const NoGrad no_grad;
  if (gradients_ && all_within(parameters_, gradients_)) return zero(gradients_);
  for (const Parameter& p : parameters_)
    if (p.tensor.grad()) weft::zero_grad(p.tensor);
}

GradientNorm Optimizer::gradient_norm(double max_norm) const {
  std::vector<Tensor> grads;
  for (const Parameter& p : parameters_) {
    grads.push_back(p.tensor.grad());
    check(grads.back().defined(), "gradient_norm", "parameter ", p.name, " has no gradient");
  }
  return weft::gradient_norm(device_, grads, float(max_norm));
}

Tensor Optimizer::allocate_gradients() {
  const NoGrad no_grad;
  const std::vector<int64_t> firsts = places_in_one_tensor(parameters_);
  for (const Parameter& p : parameters_) p.tensor.clear_grad();
  const MemoryScope scope(device_, MemoryUse::gradients);
  gradients_ = zeros(device_, {firsts.back()});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    p.node()->grad = gradients_.part(0, firsts[i], firsts[i] + p.numel()).reshape(p.shape());
  }
  return gradients_;
}

void Optimizer::set_gradient_ranges(std::vector<Tensor> gradients) {
  check(gradients.empty() || gradients.size() == parameters_.size(), "optimizer", "got ", gradients.size(), " gradients for ",
        parameters_.size(), " parameters");
  for (size_t i = 0; i < gradients.size(); ++i)
    check(owned_[i].count == (gradients[i] ? gradients[i].numel() : 0), "optimizer", "the gradient of parameter ", parameters_[i].name,
          " has another size than the range of ", owned_[i].count, " elements");
  gradient_ranges_ = std::move(gradients);
}

MutView Optimizer::weights(size_t i) const {
  const Tensor& p = parameters_[i].tensor;
  return owns_all(i) ? p.mut_view() : range_of(p, owned_[i]).mut_view();
}

View Optimizer::gradient(size_t i) const {
  const Tensor& p = parameters_[i].tensor;
  if (!gradient_ranges_.empty()) return owns_all(i) ? gradient_ranges_[i].reshape(p.shape()).view() : gradient_ranges_[i].view();
  return owns_all(i) ? p.grad().view() : range_of(p.grad(), owned_[i]).view();
}

void Optimizer::launch_adamw(const std::vector<size_t>& which, const AdamWFactors& factors, const Tensor& grad_scale) {
  AdamwArgs args{{}, rate_scalar_.view(), step_scalar_.view(), grad_scale.view(), factors.beta1, factors.beta2, factors.eps};
  for (size_t i : which)
    if (owns(i))
      args.tensors.push_back(
          {weights(i), gradient(i), slots_[i].m.mut_view(), slots_[i].v.mut_view(), slots_[i].master.mut_view(), decay_of(i)});
  if (!args.tensors.empty()) adamw(device_.stream(), args);
}

}  // namespace weft
