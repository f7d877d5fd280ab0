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

Tensor GatedMlp::operator()(const Tensor& x, const Tensor& random) const {
  const std::vector<Tensor> both = apply_each(std::array{&gate, &up}, x, random);
  return down(gated(activation, both[0], both[1]), random);
}

// The matmul's epilogue applies the activations that it has.
Tensor Mlp::operator()(const Tensor& x, const Tensor& random) const {
  static const auto gelu = fuse([](Expr v) { return gelu_erf(v); });
  switch (activation) {
    case HiddenActivation::silu: return proj(fc(x, Activation::silu, random), random);
    case HiddenActivation::relu: return proj(fc(x, Activation::relu, random), random);
    case HiddenActivation::gelu_tanh: return proj(fc(x, Activation::gelu_tanh, random), random);
    case HiddenActivation::gelu_erf: return proj(gelu(fc(x, random)), random);
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(activation));
}

}  // namespace weft
