#include "weft/nn/attention.h"

#include <cmath>
#include <utility>

#include "weft/base/check.h"
#include "weft/nn/attention_sinks.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/packed_attention/packed_attention.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/softmax/softmax.h"

namespace weft {
namespace {

// [B, T, H, D] as [B, groups, (H / groups) T, D]: the rows of all heads that share a key head in one matrix.
Tensor heads_first(const Tensor& x, int64_t groups) {
  const Shape& s = x.shape();
  return contiguous(x.permute({0, 2, 1, 3})).reshape({s[0], groups, s[2] / groups * s[1], s[3]});
}

// scale s_ij for keys j up to query i, else a score whose probability is 0.
Tensor masked(const Tensor& scores, const Tensor& at, float scale) {
  static const auto mask = fuse([](Expr s, Expr i, Expr j, Param by) { return select(j <= i, s * by, -3e38f); });
  const int64_t T = scores.shape().back();
  return mask(scores, at.reshape({T, 1}), at, scale);
}

// The same where only keys at most `back` [T, 1] before the query count.
Tensor masked_beyond(const Tensor& scores, const Tensor& at, const Tensor& back, float scale) {
  static const auto mask =
      fuse([](Expr s, Expr i, Expr j, Expr back, Param by) { return select(j <= i && i - j <= back, s * by, -3e38f); });
  const int64_t T = scores.shape().back();
  return mask(scores, at.reshape({T, 1}), at, back, scale);
}

// The keys before each query that it attends to, f32 [T, 1]: those of its document in its window.
Tensor keys_before(const Tensor& at, const Pass& pass, int64_t window) {
  static const auto least = fuse([](Expr back, Param most) { return min(back, most); });
  const Tensor query = at.reshape({pass.T, 1});
  const Tensor back = pass.documents ? embedding(query, pass.document_positions) : query;  // the position in the document as f32
  return window > 0 ? least(back, float(window - 1)) : back;
}

Tensor capped(const Tensor& scores, float scale, float cap) {
  static const auto soft = fuse([](Expr s, Param by, Param cap) { return cap * tanh(s * by / cap); });
  return soft(scores, scale, cap);
}

// The share of the softmax that the keys have (the sink has the rest): [B, H, T, 1] from scores [B, H, T, T].
Tensor share_of_keys(const Tensor& scores, const Tensor& sinks) {
  static const auto shifted = fuse([](Expr s, Expr m) { return exp(s - m); }).as(DType::f32);
  static const auto share = fuse([](Expr sum, Expr m, Expr sink) { return sigmoid(log(sum) + m - sink); });
  Shape rows = scores.shape();
  rows[rows.rank() - 1] = 1;
  const Tensor m = reduce_max(scores.detach(), -1).reshape(rows);
  return share(reduce_sum(shifted(scores, m), -1).reshape(rows), m, sinks.reshape({sinks.numel(), 1, 1}));
}

// Attention with the T by T probabilities in memory (causal_attention never holds them), so that some can be dropped.
Tensor attend_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options) {
  const int64_t B = pass.B, T = pass.T, H = q.shape()[2], Hkv = k.shape()[2], D = q.shape()[3];
  float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(float(D));
  Tensor scores = matmul(heads_first(q, Hkv), heads_first(k, Hkv), {.transpose_b = true}).reshape({B, H, T, T});
  if (options.soft_cap > 0) scores = capped(scores, std::exchange(scale, 1.0f), options.soft_cap);
  const Tensor at = pass.positions->values(T);
  const bool all = !pass.documents && options.window == 0;
  const Tensor seen = all ? masked(scores, at, scale) : masked_beyond(scores, at, keys_before(at, pass, options.window), scale);
  static const auto times = fuse([](Expr p, Expr share) { return p * share; });
  const Tensor weights = options.sinks ? times(softmax(seen), share_of_keys(seen, options.sinks)) : softmax(seen);
  const Tensor p = dropout(weights, options.dropout, pass.dropout, options.site);
  const Tensor o = matmul(p.reshape({B, Hkv, H / Hkv * T, T}), heads_first(v, Hkv));
  return contiguous(o.reshape({B, H, T, D}).permute({0, 2, 1, 3}));
}

void check_options(const AttendOptions& options) {
  constexpr const char* kWhere = "attend";
  check(options.window >= 0, kWhere, "window is ", options.window, ", expected a number of keys, or 0 for none");
  check(std::isfinite(options.soft_cap) && options.soft_cap >= 0, kWhere, "soft_cap is ", options.soft_cap,
        ", expected a positive number, or 0 for none");
}

AttentionOptions options_of_op(const Pass& pass, const AttendOptions& options) {
  return {.scale = options.scale, .window = options.window, .soft_cap = options.soft_cap, .documents = pass.documents};
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options) {
  check_options(options);
  if (pass.kv) {
    pass.kv->append(options.layer, k, v);
    // A prompt reads no earlier positions: blocks of queries share the keys.
    if (!pass.kv->reads_cache())
      return options.sinks ? attend_with_sinks(q, k, v, pass, options) : causal_attention(q, k, v, options_of_op(pass, options));
    return options.sinks ? attend_cache_with_sinks(q, pass, options) : attend_cached(q, pass, options);
  }
  if (pass.dropout && options.dropout > 0) return attend_with_dropout(q, k, v, pass, options);
  if (options.sinks) return attend_with_sinks(q, k, v, pass, options);
  return causal_attention(q, k, v, options_of_op(pass, options));
}

Tensor attend_cached(const Tensor& q, const Pass& pass, const AttendOptions& options) {
  const int64_t window = options.window < pass.kv->cache().capacity() ? options.window : 0;
  return kv_attention(q, pass.kv->keys(options.layer), pass.kv->values(options.layer), pass.kv->start(),
                      {.scale = options.scale, .window = window, .soft_cap = options.soft_cap, .pages = pass.kv->pages()});
}

Tensor attend_packed(const Tensor& qkv, int64_t kv_heads, const Pass& pass, const AttendOptions& options) {
  if (!pass.kv && !options.sinks && !(pass.dropout && options.dropout > 0))
    return packed_attention(qkv, kv_heads, options_of_op(pass, options));
  const int64_t heads = qkv.shape()[2], H = heads - 2 * kv_heads;
  const Tensor q = slice(qkv, 2, 0, H), k = slice(qkv, 2, H, H + kv_heads), v = slice(qkv, 2, H + kv_heads, heads);
  return attend(q, k, v, pass, options);
}

}  // namespace weft
