#include "weft/nn/mlp.h"

#include <array>
#include <optional>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
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

// The gradients of gate and up are columns of one tensor, too.
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
  if (fused || gate_up.applies(layers, x)) {
    const Tensor both = fused ? fused(x, lora) : gate_up(layers, x, lora);
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

namespace {

// The same activation in matmul's epilogue; nullopt if matmul does not have it.
std::optional<Activation> of_matmul(HiddenActivation kind) {
  switch (kind) {
    case HiddenActivation::silu: return Activation::silu;
    case HiddenActivation::relu: return Activation::relu;
    case HiddenActivation::gelu_tanh: return Activation::gelu_tanh;
    case HiddenActivation::gelu_erf: return {};
  }
  fail(ErrorCode::invalid_argument, "mlp", "unknown activation ", int(kind));
}

bool transposed(const Linear& l) { return l.layout == Linear::Layout::out_in; }
DType gradient_dtype(const Tensor& x) { return !x || (x.node() && x.node()->leaf()) ? DType::f32 : x.dtype(); }
int64_t rows(const Tensor& x) { return x.shape().back() ? x.numel() / x.shape().back() : 0; }

// The backward rule of both layers. Inputs: x, weight and bias of fc, weight and bias of proj. One matmul computes the gradient before the
// activation and its column sums, which are the gradient of fc's bias.
struct MlpBackward {
  struct Layer {
    Kept weight;
    bool transposed;
    DType dweight, dbias;
    explicit Layer(const Linear& l)
        : weight(l.weight), transposed(weft::transposed(l)), dweight(gradient_dtype(l.weight)), dbias(gradient_dtype(l.bias)) {}
  };
  Kept x, pre, h;
  Layer fc, proj;
  Activation activation;
  DType dx;

  // op(a) op(b) as a gradient of this dtype, added to `sum` if that is defined.
  static Tensor product(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Shape& shape, DType dtype,
                        const Tensor& sum) {
    const bool add = sum && sum.dtype() == dtype;
    const Tensor c = add ? sum : Tensor::empty(a.device(), shape, dtype);
    matmul(a.device().stream(), {.a = a.view(),
                                 .b = b.view(),
                                 .c = c.mut_view(),
                                 .bias = {},
                                 .pre = {},
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .beta = add ? 1.0f : 0.0f,
                                 .any_order = true});
    return c;
  }
  static Tensor gradient_weight(const Layer& layer, const Tensor& in, const Tensor& dout, const Tensor& sum) {
    const Tensor x = contiguous(in).reshape({rows(in), in.shape().back()}), d = dout.reshape({rows(dout), dout.shape().back()});
    return layer.transposed ? product(d, true, x, false, layer.weight.shape(), layer.dweight, sum)
                            : product(x, true, d, false, layer.weight.shape(), layer.dweight, sum);
  }

  std::vector<Tensor> operator()(const Upstream& up) const {
    const Tensor dy = contiguous(up.grads[0].detach());
    std::vector<Tensor> grads(5);
    if (up.wanted[4]) grads[4] = cast(reduce_sum(dy.reshape({rows(dy), dy.shape().back()}), 0), proj.dbias);
    if (up.wanted[3]) grads[3] = gradient_weight(proj, h, dy, up.sum(3));
    if (!up.wanted[0] && !up.wanted[1] && !up.wanted[2]) return grads;
    const Tensor dpre = Tensor::empty(dy.device(), pre.shape(), pre.dtype());
    const Tensor dbias = up.wanted[2] ? Tensor::empty(dy.device(), {pre.shape().back()}) : Tensor();
    matmul(dy.device().stream(), {.a = dy.view(),
                                  .b = proj.weight.view(),
                                  .c = dpre.mut_view(),
                                  .bias = {},
                                  .pre = {},
                                  .slope_of = pre.view(),
                                  .column_sums = dbias.mut_view(),
                                  .transpose_b = !proj.transposed,
                                  .activation = activation,
                                  .any_order = true});
    if (up.wanted[2]) grads[2] = cast(dbias, fc.dbias);
    if (up.wanted[0]) grads[0] = product(dpre, false, fc.weight, !fc.transposed, x.shape(), dx, up.sum(0));
    if (up.wanted[1]) grads[1] = gradient_weight(fc, x, dpre, up.sum(1));
    return grads;
  }
};

// Records both layers as one node of the graph.
Tensor recorded(const Linear& fc, const Linear& proj, const Tensor& x, Activation kind, const SeeIntermediate& see) {
  Shape shape = x.shape();
  shape[shape.rank() - 1] = fc.weight.shape()[transposed(fc) ? 0 : 1];
  const Tensor h = Tensor::empty(x.device(), shape, x.dtype()), pre = Tensor::empty(x.device(), shape, x.dtype());
  matmul(x.device().stream(), {.a = x.view(),
                               .b = fc.weight.view(),
                               .c = h.mut_view(),
                               .bias = fc.bias.view(),
                               .pre = pre.mut_view(),
                               .transpose_b = transposed(fc),
                               .activation = kind});
  Tensor y = matmul(h, proj.weight.detach(), {.transpose_b = transposed(proj), .bias = proj.bias.detach()});
  record("mlp", {&x, &fc.weight, &fc.bias, &proj.weight, &proj.bias}, {&y},
         MlpBackward{.x = x,
                     .pre = pre,
                     .h = h,
                     .fc = MlpBackward::Layer(fc),
                     .proj = MlpBackward::Layer(proj),
                     .activation = kind,
                     .dx = gradient_dtype(x)});
  if (see) see("c_fc with activation", h), see("mlp.c_proj", y);
  return y;
}

}  // namespace

Tensor Mlp::operator()(const Tensor& x, const LoraUse& lora, const SeeIntermediate& see) const {
  const auto kind = of_matmul(activation);
  const bool plain = !fc.adapter && !proj.adapter && !fc.has_named(lora) && !proj.has_named(lora);
  if (kind && plain && x.rank() <= 4 && should_record({&x, &fc.weight, &fc.bias, &proj.weight, &proj.bias}))
    return recorded(fc, proj, x, *kind, see);
  const Tensor h = hidden(x, lora), y = proj(h, lora);
  if (see) see("c_fc with activation", h), see("mlp.c_proj", y);
  return y;
}

// The matmul's epilogue applies the activations that it has.
Tensor Mlp::hidden(const Tensor& x, const LoraUse& lora) const {
  static const auto gelu = fuse([](Expr v) { return gelu_erf(v); });
  if (const auto kind = of_matmul(activation)) return fc(x, *kind, lora);
  return gelu(fc(x, lora));
}

}  // namespace weft
