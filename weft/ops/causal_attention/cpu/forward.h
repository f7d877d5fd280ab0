// The forward pass: the queries are the lanes, so that softmax runs down the lanes without folding vectors; keys and values are streamed
// as rows.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#endif

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/cpu/scores.h"
#include "weft/tile/cpu/heads.h"
#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/scratch_slots.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Online softmax of kBlocks blocks of queries from `lane` on: scores become p relative to the new running maximum m (with pairs, words of
// two rows); l is the running sum of p before it is rounded, since lse belongs to the scores and not to the rounded weights. rescale is
// the factor for earlier sums. Row r >= full is attended to by the lanes from r - full on.
template <class In, int kBlocks>
void online_softmax(int64_t lane, int64_t rows, int64_t full, float scale, float* scores, float* m, float* l, float* rescale) {
  const F32x16 none = splat(-HUGE_VALF), number = lane_numbers();
  const auto score = [&](int64_t r, int j) HWY_ATTR {
    const F32x16 s = load(scores + r * kTile + lane + j * kBlock);
    return In::kLanesAreScaled ? s : s * splat(scale);
  };
  const auto where_seen = [&](int64_t r, F32x16 x, F32x16 otherwise)
                              HWY_ATTR { return r < full ? x : select(number < splat(float(r - full)), otherwise, x); };
  F32x16 most[kBlocks], base[kBlocks], sum[kBlocks];
  for (int j = 0; j < kBlocks; ++j) most[j] = load(m + lane + j * kBlock);
  for (int64_t r = 0; r < rows; ++r)
    for (int j = 0; j < kBlocks; ++j) most[j] = larger(most[j], where_seen(r, score(r, j), none));  // a NaN is lost here, but not in its p
  for (int j = 0; j < kBlocks; ++j) {
    const int64_t at = lane + j * kBlock;
    base[j] = select(none < most[j], most[j], zero());  // all scores -inf so far: p = 0, not NaN
    const F32x16 factor = exp(load(m + at) - base[j]);
    sum[j] = load(l + at) * factor;
    store(most[j], m + at);
    store(factor, rescale + at);
  }
  const auto weight = [&](int64_t r, int j) HWY_ATTR {  // not exp(-inf): an underflow costs 100 cycles
    return where_seen(r, exp_of_negative(score(r, j) - base[j]), zero());
  };
  constexpr int kRows = In::Step::kElements;
  for (int64_t r = 0; r < rows; r += kRows)
    for (int j = 0; j < kBlocks; ++j) {
      F32x16 weights = weight(r, j);
      sum[j] = sum[j] + weights;
      if constexpr (kRows == 2) {
        const F32x16 odd = r + 1 < rows ? weight(r + 1, j) : zero();
        sum[j] = sum[j] + odd;
        weights = round_to_pairs(weights, odd);
      }
      store(weights, scores + r / kRows * kTile + lane + j * kBlock);
    }
  for (int j = 0; j < kBlocks; ++j) store(sum[j], l + lane + j * kBlock);
}

// 64 queries: q as lanes, o as rows [64][D]; m, l and rescale [64].
struct QueryLanes {
  float *qt, *o, *m, *l, *rescale;
  int64_t i0, count;

  static int64_t floats(const Sizes& s) { return 2 * s.tile() + 3 * kTile; }
};

template <class In>
QueryLanes load_queries(const Sizes& s, const OperandTile<typename In::T>& q, float scale, int64_t i0, float* rows,
                        ScratchSlots::Lease& lease) {
  const QueryLanes t{lease.take(s.tile()), lease.take(s.tile()), lease.take(kTile), lease.take(kTile), lease.take(kTile), i0, q.count};
  In::lanes(s, q, scale, rows, t.qt);
  std::fill_n(t.m, kTile, -HUGE_VALF);
  std::fill_n(t.l, kTile, 0.0f);
  return t;
}

// One tile of keys and values, as rows, for 64 queries.
template <class In>
void attend(const Sizes& s, float scale, const QueryLanes& q, int64_t j0, const TileRows& k, const TileRows& v, float* scores,
            PrefetchQueue& prefetch) {
  const Scores t{s.rows_from(j0), padded(q.count), j0 == q.i0};
  matmul_of_rows<Lanes::queries, typename In::Step>(t, s, k, q.qt, scores, prefetch);
  if (!t.diagonal && t.lanes == kTile)
    online_softmax<In, 4>(0, t.rows, t.rows, scale, scores, q.m, q.l, q.rescale);
  else
    for (int64_t lane = 0; lane < t.lanes; lane += kBlock)
      online_softmax<In, 1>(lane, t.diagonal ? std::min(t.rows, lane + kBlock) : t.rows, t.diagonal ? lane : t.rows, scale, scores, q.m,
                            q.l, q.rescale);
  add_weighted_rows<Lanes::queries, typename In::Step>(t, s, scores, v, q.count, {.add = j0 > 0, .factor = j0 > 0 ? q.rescale : nullptr},
                                                       q.o, prefetch);
}

template <class T>
void store_queries(const Sizes& s, const QueryLanes& q, T* o, int64_t o_row, float* lse) {
  for (int64_t r = 0; r < q.count; ++r) store_tile(q.o + r * s.width(), 1, s.D, 1.0f / q.l[r], o + r * o_row, 0);
  for_each_block(q.count, [&](At at) HWY_ATTR { at.store(at.load(q.m) + log(at.load(q.l)), lse); });
}

// Equation: o_i = sum over j <= i of p_ij v_j, p_ij = exp(s_ij - lse_i), s_ij = scale q_i . k_j, lse_i = log sum exp s_ij.
// Layout:   q, o [B, T, H, D] and k, v [B, T, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    one task per (b, h, span of queries), the longest first; keys in order, in blocks of 64 with a running maximum.
//           With pairs, p is rounded to bf16 before it multiplies v.
// Requires: unit stride over D, D <= 256 (the contract's). A NaN reaches only the queries that attend to it.
// Traffic:  q once, o once; k and v once per span of queries, mostly from cache.
template <class In>
void forward(Stream& stream, const CausalAttentionArgs& a) {
  using T = typename In::T;
  const Sizes s(a.q, a.k, In::kGrain);
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v);
  const Heads<T> o = heads<T>(a.o);
  const int64_t span = s.B * s.H * ceil_div(s.T, kSpan) >= 32 ? kSpan : kTile;  // short work: more tasks
  const int64_t spans = ceil_div(s.T, span), tasks = s.B * s.H * spans;
  ScratchSlots slots(stream, span / kTile * QueryLanes::floats(s) + 3 * s.tile() + kTile * kTile, tasks);
  struct Place {
    int64_t b, h, hk, first;
  };
  const auto place = [&](int64_t task) {
    return Place{task % (s.B * s.H) / s.H, task % s.H, task % s.H / s.group(), (spans - 1 - task / (s.B * s.H)) * span};
  };
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const auto [b, h, hk, first] = place(task);
    const int64_t last = std::min(s.T, first + span);
    ScratchSlots::Lease lease(slots);
    const typename In::Unit unit;
    float *kr = lease.take(s.tile()), *vr = lease.take(s.tile()), *rows = lease.take(s.tile()), *scores = lease.take(kTile * kTile);
    QueryLanes tiles[kSpan / kTile];
    PrefetchQueue prefetch;
    for (int64_t j0 = 0; j0 < last; j0 += kTile) {
      const TileRows keys = In::left(s, {k.row(b, j0, hk), k.time, s.rows_from(j0)}, kr);
      const TileRows values = In::right(s, {v.row(b, j0, hk), v.time, s.rows_from(j0)}, vr);
      const int64_t begin = std::max(first, j0), share = kTile / ceil_div(last - begin, kTile) + 1;
      for (int64_t i0 = begin; i0 < last; i0 += kTile) {
        QueryLanes& tile = tiles[(i0 - first) / kTile];
        if (j0 == 0) tile = load_queries<In>(s, {q.row(b, i0, h), q.time, s.rows_from(i0)}, a.scale, i0, rows, lease);
        const int64_t next = j0 + kTile + (i0 - begin) / kTile * share, count = std::min(share, last - next);
        prefetch.clear();
        if (j0 == 0) prefetch.add(q.row(b, i0 + kTile, h), q.time, std::min(kTile, last - i0 - kTile), s.D);
        prefetch.add(k.row(b, next, hk), k.time, count, s.D);
        prefetch.add(v.row(b, next, hk), v.time, count, s.D);
        if (i0 == j0) prefetch.add(o.row(b, i0, h), o.time, tile.count, s.D);
        if (j0 + kTile >= last && task + 1 < tasks) {  // most likely this thread's next
          const auto then = place(task + 1);
          prefetch.add(q.row(then.b, then.first, then.h), q.time, s.rows_from(then.first), s.D);
          for (const auto& from : {k, v}) prefetch.add(from.row(then.b, 0, then.hk), from.time, s.rows_from(0), s.D);
        }
        prefetch.spread(2 * kSteps);
        attend<In>(s, a.scale, tile, j0, keys, values, scores, prefetch);
        if (i0 == j0) store_queries(s, tile, o.row(b, i0, h), o.time, data<float>(a.lse) + (b * s.H + h) * s.T + i0);
      }
    }
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
