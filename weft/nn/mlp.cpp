#include "weft/nn/mlp.h"

#include <array>

#include "weft/ops/elementwise/elementwise.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// Calls `apply` with f(g) u of the activation f.
template <class Apply>
Tensor with_gate(HiddenActivation kind, const Apply& apply) {
  static const auto by_silu = fuse([](Expr g, Expr u) { return silu(g) * u; });
  static const auto by_relu = fuse([](Expr g, Expr u) { return relu(g) * u; });
  static const auto by_gelu_tanh = fuse([](Expr g, Expr u) { return gelu_tanh(g) * u; });
  static const auto by_gelu_erf = fuse([](Expr g, Expr u) { return gelu_erf(g) * u; });
  switch (kind) {
    case HiddenActivation::silu: return apply(by_silu);
    case HiddenActivation::relu: return apply(by_relu);
    case HiddenActivation::gelu_tanh: return apply(by_gelu_tanh);
    case HiddenActivation::gelu_erf: return apply(by_gelu_erf);
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(kind));
}

Tensor gated(HiddenActivation kind, const Tensor& gate, const Tensor& up) {
  return with_gate(kind, [&](const auto& f) {
    if (gate.requires_grad() || up.requires_grad()) return f(gate, up);
    f.into(gate, gate, up);  // the gate is not read again
    return gate;
  });
}

// Gate and up side by side: the columns of one tensor [..., 2 F].
struct Halves {
  explicit Halves(const Tensor& both)
      : gate(both.part(-1, 0, both.shape().back() / 2)), up(both.part(-1, both.shape().back() / 2, both.shape().back())) {}
  Tensor gate, up;
};

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

// The gradients of gate and up are side by side, too.
Tensor gated(HiddenActivation kind, const Tensor& gate_up) {
  return with_gate(kind, [&](const auto& f) {
    const Halves in(gate_up.detach());
    Tensor h = Tensor::empty(gate_up.device(), in.gate.shape(), gate_up.dtype());
    f.into(h, in.gate, in.up);
    record("gated", {&gate_up}, {&h},
           [derivative = f.function().derivative({true, true}, {true}), kept = Kept(gate_up)](const Upstream& up) {
             const Tensor dboth = Tensor::empty(kept.device(), kept.shape(), kept.dtype());
             const Halves x(kept), dx(dboth);
             elementwise_into(*derivative, std::array{dx.gate, dx.up}, std::array{&x.gate, &x.up, &up.grads[0]}, {});
             return std::vector<Tensor>{dboth};
           });
    return h;
  });
}

Tensor GatedMlp::operator()(const Tensor& x, const LoraUse& lora, const SeeIntermediate& see) const {
  const Tensor h = hidden(x, lora, see), y = down(h, lora);
  if (see) see("gated", h), see("down_proj", y);
  return y;
}

Tensor GatedMlp::hidden(const Tensor& x, const LoraUse& lora, const SeeIntermediate& see) const {
  const std::array layers{&gate, &up};
  if (fused.weight || gate_up.applies(layers, x)) {
    const Tensor both = fused.weight ? fused(x, lora) : gate_up(layers, x, lora);
    if (see) {
      const Halves halves(both.detach());
      see("gate_proj", halves.gate), see("up_proj", halves.up);
    }
    return gated(activation, both);
  }
  const std::vector<Tensor> both = apply_each(layers, x, lora);
  if (see) see("gate_proj", both[0]), see("up_proj", both[1]);
  return gated(activation, both[0], both[1]);
}

Tensor Mlp::operator()(const Tensor& x, const LoraUse& lora, const SeeIntermediate& see) const {
  const Tensor h = hidden(x, lora), y = proj(h, lora);
  if (see) see("c_fc with activation", h), see("mlp.c_proj", y);
  return y;
}

// The matmul's epilogue applies the activations that it has.
Tensor Mlp::hidden(const Tensor& x, const LoraUse& lora) const {
  static const auto gelu = fuse([](Expr v) { return gelu_erf(v); });
  switch (activation) {
    case HiddenActivation::silu: return fc(x, Activation::silu, lora);
    case HiddenActivation::relu: return fc(x, Activation::relu, lora);
    case HiddenActivation::gelu_tanh: return fc(x, Activation::gelu_tanh, lora);
    case HiddenActivation::gelu_erf: return gelu(fc(x, lora));
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(activation));
}

}  // namespace weft
