#include "weft/nn/mlp.h"

#include <array>

#include "weft/ops/elementwise/elementwise.h"

namespace weft {
namespace {

template <class F>
Tensor gated(const Fused<F>& f, const Tensor& gate, const Tensor& up) {
  if (gate.requires_grad() || up.requires_grad()) return f(gate, up);
  f.into(gate, gate, up);  // the gate is not read again
  return gate;
}

Tensor gated(HiddenActivation kind, const Tensor& gate, const Tensor& up) {
  static const auto by_silu = fuse([](Expr g, Expr u) { return silu(g) * u; });
  static const auto by_relu = fuse([](Expr g, Expr u) { return relu(g) * u; });
  static const auto by_gelu_tanh = fuse([](Expr g, Expr u) { return gelu_tanh(g) * u; });
  static const auto by_gelu_erf = fuse([](Expr g, Expr u) { return gelu_erf(g) * u; });
  switch (kind) {
    case HiddenActivation::silu: return gated(by_silu, gate, up);
    case HiddenActivation::relu: return gated(by_relu, gate, up);
    case HiddenActivation::gelu_tanh: return gated(by_gelu_tanh, gate, up);
    case HiddenActivation::gelu_erf: return gated(by_gelu_erf, gate, up);
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(kind));
}

}  // namespace

const char* name(HiddenActivation kind) {
  switch (kind) {
    case HiddenActivation::silu: return "silu";
    case HiddenActivation::relu: return "relu";
    case HiddenActivation::gelu_tanh: return "gelu_tanh";
    case HiddenActivation::gelu_erf: return "gelu_erf";
  }
  return "no such activation";
}

Tensor GatedMlp::operator()(const Tensor& x, const Tensor& random, const SeeIntermediate& see) const {
  const std::vector<Tensor> both = apply_each(std::array{&gate, &up}, x, random);
  if (see) see("gate_proj", both[0]), see("up_proj", both[1]);
  const Tensor h = gated(activation, both[0], both[1]);
  const Tensor y = down(h, random);
  if (see) see("gated", h), see("down_proj", y);
  return y;
}

Tensor Mlp::operator()(const Tensor& x, const Tensor& random, const SeeIntermediate& see) const {
  const Tensor h = hidden(x, random), y = proj(h, random);
  if (see) see("c_fc with activation", h), see("mlp.c_proj", y);
  return y;
}

// The matmul's epilogue applies the activations that it has.
Tensor Mlp::hidden(const Tensor& x, const Tensor& random) const {
  static const auto gelu = fuse([](Expr v) { return gelu_erf(v); });
  switch (activation) {
    case HiddenActivation::silu: return fc(x, Activation::silu, random);
    case HiddenActivation::relu: return fc(x, Activation::relu, random);
    case HiddenActivation::gelu_tanh: return fc(x, Activation::gelu_tanh, random);
    case HiddenActivation::gelu_erf: return gelu(fc(x, random));
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(activation));
}

}  // namespace weft
