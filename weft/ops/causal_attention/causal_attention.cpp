#include "weft/ops/causal_attention/causal_attention.h"

#include <cmath>

#include "weft/ops/heads.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

// One operand that has the shape and dtype of another; V is View or MutView.
template <class V>
void check_like(const Contract& contract, const char* name, const V& view, const char* other_name, const View& other) {
  contract.operand(name, view, kFloats).shape(name, view, other.shape).same_dtype(name, view, other_name, other);
  require_heads(contract, name, view);
}

// Checks the operands that forward and backward share: q, k, v, lse and scale.
void check_inputs(const Contract& contract, const View& q, const View& k, const View& v, const View& lse, float scale) {
  contract.operand("q", q, kFloats).operand("k", k, kFloats).operand("v", v, kFloats);
  require_heads(contract, "q", q);
  require_heads(contract, "k", k);
  const int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], Hkv = k.shape[2];
  contract.require(1 <= D && D <= CausalAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ",
                   CausalAttentionArgs::kMostHeadDim);
  contract.require(Hkv == 0 ? H == 0 : H > 0 && H % Hkv == 0, "q has ", H, " heads, which is no multiple of the ", Hkv, " heads of k");
  contract.shape("k", k, Shape{B, T, Hkv, D}).same_dtype("k", k, "q", q);
  check_like(contract, "v", v, "k", k);
  contract.operand("lse", lse, {DType::f32}).shape("lse", lse, Shape{B, H, T});
  contract.require(lse.contiguous(), "lse must be contiguous, got strides ", lse.strides);
  contract.require(std::isfinite(scale), "scale is ", scale, ", expected a finite number");
}

// Two matmuls of T (T + 1) / 2 pairs, 2 D operations a pair.
double forward_flops(const View& q) {
  const double pairs = double(q.shape[1]) * double(q.shape[1] + 1) / 2;
  return 4.0 * double(q.shape[0]) * double(q.shape[2]) * double(q.shape[3]) * pairs;
}

}  // namespace

void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  const Contract contract(CausalAttentionArgs::kOp, stream);
  check_inputs(contract, args.q, args.k, args.v, args.lse, args.scale);
  check_like(contract, "o", args.o, "q", args.q);
  stream.device().kernels().causal_attention(stream, args);
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  const Contract contract(CausalAttentionBackwardArgs::kOp, stream);
  check_inputs(contract, args.q, args.k, args.v, args.lse, args.scale);
  check_like(contract, "dout", args.dout, "q", args.q);
  check_like(contract, "o", args.o, "q", args.q);
  check_like(contract, "dq", args.dq, "q", args.q);
  check_like(contract, "dk", args.dk, "k", args.k);
  check_like(contract, "dv", args.dv, "k", args.k);
  stream.device().kernels().causal_attention_backward(stream, args);
}

Cost cost(const CausalAttentionArgs& a) {
  return {bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.v) + bytes_of(a.o) + bytes_of(a.lse), forward_flops(a.q)};
}

Cost cost(const CausalAttentionBackwardArgs& a) {
  return {bytes_of(a.dout) + bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.v) + bytes_of(a.o) + bytes_of(a.lse) + bytes_of(a.dq) +
              bytes_of(a.dk) + bytes_of(a.dv),
          2.5 * forward_flops(a.q)};
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, float scale) {
  Device& device = q.device();
  check(q.rank() == 4, CausalAttentionArgs::kOp, "q must be [batch, time, heads, head_dim], got shape ", q.shape());
  if (scale == 0) scale = 1 / std::sqrt(float(std::max<int64_t>(1, q.shape()[3])));
  Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  Tensor lse = Tensor::empty(device, Shape{q.shape()[0], q.shape()[2], q.shape()[1]});
  causal_attention(device.stream(),
                   {.q = q.view(), .k = k.view(), .v = v.view(), .o = o.mut_view(), .lse = lse.mut_view(), .scale = scale});
  record("causal_attention", {&q, &k, &v}, {&o}, [q = Kept(q), k = Kept(k), v = Kept(v), o = Kept(o), lse, scale](const Upstream& up) {
    Device& device = q.device();
    const Tensor dout = contiguous(up.grads[0]);
    Tensor dq = Tensor::empty(device, q.shape(), q.dtype());
    Tensor dk = Tensor::empty(device, k.shape(), k.dtype()), dv = Tensor::empty(device, v.shape(), v.dtype());
    causal_attention_backward(device.stream(), {.dout = dout.view(),
                                                .q = q.view(),
                                                .k = k.view(),
                                                .v = v.view(),
                                                .o = o.view(),
                                                .lse = lse.view(),
                                                .dq = dq.mut_view(),
                                                .dk = dk.mut_view(),
                                                .dv = dv.mut_view(),
                                                .scale = scale});
    return std::vector<Tensor>{dq, dk, dv};
  });
  return o;
}

}  // namespace weft
