#include "weft/nn/attention_sinks.h"

#include <cmath>

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

float scale_of(const Tensor& q, const AttendOptions& options) {
  return options.scale != 0 ? options.scale : 1 / std::sqrt(float(q.shape().back()));
}

// lse [B, H, T] as [B, T, H, 1].
Tensor by_token(const Tensor& lse) {
  const Shape& s = lse.shape();
  return lse.reshape({s[0], s[1], s[2], 1}).permute({0, 2, 1, 3});
}

// Replaces o and lse by o' and lse', in place.
void apply_sinks(const Tensor& o, const Tensor& lse, const Tensor& sinks) {
  static const auto shrink = fuse([](Expr o, Expr lse, Expr sink) { return o * sigmoid(lse - sink); });
  static const auto grow = fuse([](Expr lse, Expr sink) { return lse + softplus(sink - lse); });
  const NoGrad no_grad;
  const int64_t H = sinks.numel();
  const Tensor own = sinks.detach();
  shrink.into(o, o, by_token(lse), own.reshape({H, 1}));
  grow.into(lse, lse, own.reshape({H, 1}));
}

// dsink [H], f32, from o' [B, T, H, D] and lse' [B, H, T].
Tensor gradient_of_sinks(const Tensor& dout, const Tensor& o, const Tensor& lse, const Tensor& sinks) {
  static const auto product = fuse([](Expr a, Expr b) { return a * b; }).as(DType::f32);
  static const auto share = fuse([](Expr delta, Expr lse, Expr sink) { return -(delta * exp(sink - lse)); }).as(DType::f32);
  const NoGrad no_grad;
  const int64_t B = o.shape()[0], T = o.shape()[1], H = o.shape()[2];
  const Tensor delta = reduce_sum(product(dout, o), -1);  // [B, T, H]
  const Tensor of_query = share(delta.reshape({B, T, H, 1}), by_token(lse), sinks.detach().reshape({H, 1}));
  return reduce_sum(of_query.reshape({B * T, H}), 0);
}

}  // namespace

Tensor attend_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options) {
  Device& device = q.device();
  CausalAttentionArgs args{.q = q.view(),
                           .k = k.view(),
                           .v = v.view(),
                           .o = {},
                           .lse = {},
                           .scale = scale_of(q, options),
                           .documents = pass.documents.view(),
                           .window = options.window,
                           .soft_cap = options.soft_cap};
  Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  const Tensor lse = Tensor::empty(device, {q.shape()[0], q.shape()[2], q.shape()[1]});
  args.o = o.mut_view(), args.lse = lse.mut_view();
  causal_attention(device.stream(), args);
  apply_sinks(o, lse, options.sinks);
  const auto rule = [q = Kept(q), k = Kept(k), v = Kept(v), o = Kept(o), lse, documents = Kept(pass.documents), sinks = Kept(options.sinks),
                     scale = args.scale, window = args.window, soft_cap = args.soft_cap](const Upstream& up) {
    Device& device = q.device();
    const Tensor dout = contiguous(up.grads[0]);
    std::vector<Tensor> grads(4);
    for (size_t i = 0; const Kept* x : {&q, &k, &v}) grads[i++] = Tensor::empty(device, x->shape(), x->dtype());
    causal_attention_backward(device.stream(), {.dout = dout.view(),
                                                .q = q.view(),
                                                .k = k.view(),
                                                .v = v.view(),
                                                .o = o.view(),
                                                .lse = lse.view(),
                                                .dq = grads[0].mut_view(),
                                                .dk = grads[1].mut_view(),
                                                .dv = grads[2].mut_view(),
                                                .scale = scale,
                                                .documents = documents.view(),
                                                .window = window,
                                                .soft_cap = soft_cap});
    if (up.wanted[3]) grads[3] = gradient_of_sinks(dout, o, lse, sinks);
    return grads;
  };
  record("attend_with_sinks", {&q, &k, &v, &options.sinks}, {&o}, rule);
  return o;
}

Tensor attend_cache_with_sinks(const Tensor& q, const Pass& pass, const AttendOptions& options) {
  Device& device = q.device();
  const KvPass& kv = *pass.kv;
  const Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  const Tensor lse = Tensor::empty(device, {q.shape()[0], q.shape()[2], q.shape()[1]});
  const Tensor k = kv.keys(options.layer), v = kv.values(options.layer), start = kv.start(), pages = kv.pages();
  kv_attention(device.stream(), {.q = q.view(),
                                 .k_cache = k.view(),
                                 .v_cache = v.view(),
                                 .start = start.view(),
                                 .o = o.mut_view(),
                                 .scale = scale_of(q, options),
                                 .window = options.window < kv.cache().capacity() ? options.window : 0,
                                 .soft_cap = options.soft_cap,
                                 .pages = pages ? pages.view() : View(),
                                 .lse = lse.mut_view()});
  apply_sinks(o, lse, options.sinks);
  return o;
}

}  // namespace weft
