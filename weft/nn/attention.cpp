#include "weft/nn/attention.h"

#include <cmath>

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// [B, T, H, D] as [B, groups, (H / groups) T, D]: the rows of all heads that share a key head under each other.
Tensor heads_first(const Tensor& x, int64_t groups) {
  const Shape& s = x.shape();
  return contiguous(x.permute({0, 2, 1, 3})).reshape({s[0], groups, s[2] / groups * s[1], s[3]});
}

// scale s_ij where key j is not after query i, else so little that its probability is 0.
Tensor masked(const Tensor& scores, const Tensor& at, float scale) {
  static const auto mask = fuse([](Expr s, Expr i, Expr j, Param by) { return select(j <= i, s * by, -3e38f); });
  const int64_t T = scores.shape().back();
  return mask(scores, at.reshape({T, 1}), at, scale);
}

// The probabilities as a matrix, which causal_attention never has: memory for T by T of them.
Tensor attend_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options) {
  const int64_t B = pass.B, T = pass.T, H = q.shape()[2], Hkv = k.shape()[2], D = q.shape()[3];
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(float(D));
  const Tensor scores = matmul(heads_first(q, Hkv), heads_first(k, Hkv), {.transpose_b = true}).reshape({B, H, T, T});
  const Tensor p = dropout(softmax(masked(scores, pass.positions->values(T), scale)), options.dropout, pass.dropout, options.site);
  const Tensor o = matmul(p.reshape({B, Hkv, H / Hkv * T, T}), heads_first(v, Hkv));
  return contiguous(o.reshape({B, H, T, D}).permute({0, 2, 1, 3}));
}

struct Packed {
  Tensor q, k, v;
};
template <class Part>
Packed unpack(const Tensor& qkv, int64_t Hkv, Part part) {
  const int64_t H = qkv.shape()[2] - 2 * Hkv;
  return {part(qkv, 0, H), part(qkv, H, H + Hkv), part(qkv, H + Hkv, H + 2 * Hkv)};
}
Packed parts(const Tensor& qkv, int64_t Hkv) {
  return unpack(qkv, Hkv, [](const Tensor& x, int64_t from, int64_t to) { return x.part(2, from, to); });
}

Tensor causal_attention_packed(const Tensor& qkv, int64_t Hkv, float scale) {
  Device& device = qkv.device();
  const Tensor all = qkv.detach();
  const Packed in = parts(all, Hkv);
  const Shape& s = in.q.shape();
  if (scale == 0) scale = 1 / std::sqrt(float(s[3]));
  Tensor o = Tensor::empty(device, s, qkv.dtype());
  const Tensor lse = Tensor::empty(device, {s[0], s[2], s[1]});
  causal_attention(device.stream(),
                   {.q = in.q.view(), .k = in.k.view(), .v = in.v.view(), .o = o.mut_view(), .lse = lse.mut_view(), .scale = scale});
  record("causal_attention_packed", {&qkv}, {&o}, [all = Kept(all), o = Kept(o), lse, Hkv, scale](const Upstream& up) {
    const Tensor dout = contiguous(up.grads[0].detach()), dqkv = Tensor::empty(all.device(), all.shape(), all.dtype());
    const Packed in = parts(all, Hkv), out = parts(dqkv, Hkv);
    causal_attention_backward(all.device().stream(), {.dout = dout.view(),
                                                      .q = in.q.view(),
                                                      .k = in.k.view(),
                                                      .v = in.v.view(),
                                                      .o = o.view(),
                                                      .lse = lse.view(),
                                                      .dq = out.q.mut_view(),
                                                      .dk = out.k.mut_view(),
                                                      .dv = out.v.mut_view(),
                                                      .scale = scale});
    return std::vector<Tensor>{dqkv};
  });
  return o;
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options) {
  if (pass.cache) {
    pass.cache->append(options.layer, k, v);
    // A prompt reads no positions from before: blocks of queries share the keys.
    if (pass.cache->empty() && pass.T > 1) return causal_attention(q, k, v, options.scale);
    return kv_attention(q, pass.cache->keys(options.layer), pass.cache->values(options.layer), pass.cache->start(), options.scale);
  }
  if (pass.dropout && options.dropout > 0) return attend_with_dropout(q, k, v, pass, options);
  return causal_attention(q, k, v, options.scale);
}

Tensor attend_packed(const Tensor& qkv, int64_t kv_heads, const Pass& pass, const AttendOptions& options) {
  if (!pass.cache && !(pass.dropout && options.dropout > 0)) return causal_attention_packed(qkv, kv_heads, options.scale);
  const Packed in = unpack(qkv, kv_heads, [](const Tensor& x, int64_t from, int64_t to) { return slice(x, 2, from, to); });
  return attend(in.q, in.k, in.v, pass, options);
}

}  // namespace weft
