#include "weft/ops/causal_attention/causal_attention.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// The numbers that forward and backward share.
void check_numbers(const Contract& contract, const View& q, const View& k, float scale) {
  const int64_t H = q.shape[2], D = q.shape[3], K = k.shape[2];
  contract.require(1 <= D && D <= CausalAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ",
                   CausalAttentionArgs::kMostHeadDim);
  contract.require(K == 0 ? H == 0 : H > 0 && H % K == 0, "q has ", H, " heads, which is no multiple of the ", K, " heads of k");
  contract.require(std::isfinite(scale), "scale is ", scale, ", expected a finite number");
}

// Two matmuls over T (T + 1) / 2 pairs, 2 D operations a pair.
double forward_flops(const View& q) {
  const double pairs = double(q.shape[1]) * double(q.shape[1] + 1) / 2;
  return 4.0 * double(q.shape[0]) * double(q.shape[2]) * double(q.shape[3]) * pairs;
}

}  // namespace

void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  check_numbers(check_operands(stream, args), args.q, args.k, args.scale);
  stream.device().kernels().causal_attention(stream, args);
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  check_numbers(check_operands(stream, args), args.q, args.k, args.scale);
  stream.device().kernels().causal_attention_backward(stream, args);
}

Cost cost(const CausalAttentionArgs& a) { return {operand_bytes(a), forward_flops(a.q)}; }
Cost cost(const CausalAttentionBackwardArgs& a) { return {operand_bytes(a), 2.5 * forward_flops(a.q)}; }

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
