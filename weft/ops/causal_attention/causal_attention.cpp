#include "weft/ops/causal_attention/causal_attention.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// The numbers that forward and backward share.
template <class Args>
void check_numbers(const Contract& contract, const Args& a) {
  const int64_t B = a.q.shape[0], H = a.q.shape[2], D = a.q.shape[3], K = a.k.shape[2];
  contract.require(1 <= D && D <= CausalAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ",
                   CausalAttentionArgs::kMostHeadDim);
  contract.require(K == 0 ? H == 0 : H > 0 && H % K == 0, "q has ", H, " heads, which is no multiple of the ", K, " heads of k");
  contract.require(std::isfinite(a.scale), "scale is ", a.scale, ", expected a finite number");
  contract.require(a.window >= 0, "window is ", a.window, ", expected a number of keys, or 0 for none");
  contract.require(std::isfinite(a.soft_cap) && a.soft_cap >= 0, "soft_cap is ", a.soft_cap, ", expected a positive number, or 0 for none");
  if (!a.documents) return;
  contract.require(B == 1, "documents need one sequence, got ", B, " of q's shape ", a.q.shape);
  contract.require(a.documents.numel() >= 1, "documents is empty, expected the cumulative lengths 0, ..., ", a.q.shape[1]);
}

// Two matmuls over the pairs of a query and a key in its window, 2 D operations a pair.
template <class Args>
double forward_flops(const Args& a) {
  const double T = double(a.q.shape[1]), seen = a.window > 0 ? std::min(T, double(a.window)) : T;
  const double pairs = seen * (seen + 1) / 2 + (T - seen) * seen;
  return 4.0 * double(a.q.shape[0]) * double(a.q.shape[2]) * double(a.q.shape[3]) * pairs;
}

}  // namespace

void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  check_numbers(check_operands(stream, args), args);
  stream.device().kernels().causal_attention(stream, args);
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  check_numbers(check_operands(stream, args), args);
  stream.device().kernels().causal_attention_backward(stream, args);
}

Cost cost(const CausalAttentionArgs& a) { return {operand_bytes(a), forward_flops(a)}; }
Cost cost(const CausalAttentionBackwardArgs& a) { return {operand_bytes(a), 2.5 * forward_flops(a)}; }

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, float scale) {
  return causal_attention(q, k, v, AttentionOptions{.scale = scale});
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Device& device = q.device();
  check(q.rank() == 4, CausalAttentionArgs::kOp, "q must be [batch, time, heads, head_dim], got shape ", q.shape());
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(float(std::max<int64_t>(1, q.shape()[3])));
  Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  Tensor lse = Tensor::empty(device, Shape{q.shape()[0], q.shape()[2], q.shape()[1]});
  causal_attention(device.stream(), {.q = q.view(),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .o = o.mut_view(),
                                     .lse = lse.mut_view(),
                                     .scale = scale,
                                     .documents = options.documents.view(),
                                     .window = options.window,
                                     .soft_cap = options.soft_cap});
  const auto rule = [q = Kept(q), k = Kept(k), v = Kept(v), o = Kept(o), documents = Kept(options.documents), lse, scale,
                     window = options.window, soft_cap = options.soft_cap](const Upstream& up) {
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
                                                .scale = scale,
                                                .documents = documents.view(),
                                                .window = window,
                                                .soft_cap = soft_cap});
    return std::vector<Tensor>{dq, dk, dv};
  };
  record("causal_attention", {&q, &k, &v}, {&o}, rule);
  return o;
}

}  // namespace weft
