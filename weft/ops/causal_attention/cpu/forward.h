// The forward pass: the queries are the lanes, so that softmax runs down the lanes without folding vectors; keys and values are streamed
// as rows.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_FORWARD_H_
#endif

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/cpu/online_softmax.h"
#include "weft/tile/cpu/heads.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// 64 queries: q as lanes; sums of the present segment of keys and, if T has several, of those before; rescale [64].
struct QueryLanes {
  float *qt, *rescale;
  SegmentSums now, before;
  int64_t i0, count;

  static int64_t floats(const Sizes& s) { return s.tile() + kTile + (s.T > kSegment ? 2 : 1) * SegmentSums::floats(s.width()); }
};

template <class In>
QueryLanes load_queries(const Sizes& s, const OperandTile<typename In::T>& q, int64_t i0, float* rows, ScratchSlots::Lease& lease) {
  const auto sums = [&] { return SegmentSums(lease.take(SegmentSums::floats(s.width())), s.width()); };
  QueryLanes t{lease.take(s.tile()), lease.take(kTile), sums(), {}, i0, q.count};
  if (s.T > kSegment) t.before = sums();
  In::lanes(s, q, 1, rows, t.qt);
  t.now.clear();
  return t;
}

// The segment of q.now is complete: merges it with those before.
inline void end_segment(const Sizes& s, QueryLanes& q, int64_t segment) {
  if (segment == 0)
    std::swap(q.now, q.before);
  else
    q.before.merge(q.now, s.width(), q.count);
}

// One tile of keys and values, as rows, for 64 queries.
template <class In>
void attend(const Sizes& s, float scale, QueryLanes& q, int64_t j0, const TileRows& k, const TileRows& v, float* scores,
            PrefetchQueue& prefetch) {
  const bool first = j0 % kSegment == 0;
  if (first && j0 > 0) {
    end_segment(s, q, j0 / kSegment - 1);
    q.now.clear();
  }
  const Scores t{s.rows_from(j0), padded(q.count), j0 == q.i0};
  matmul_of_rows<Lanes::queries, typename In::Step>(t, s, k, q.qt, scores, prefetch);
  if (!t.diagonal && t.lanes == kTile)
    online_softmax<In, 4>(0, t.rows, kAllSeen, scale, scores, q.now.m, q.now.l, q.rescale);
  else
    for (int64_t lane = 0; lane < t.lanes; lane += kBlock)
      online_softmax<In, 1>(lane, t.diagonal ? std::min(t.rows, lane + kBlock) : t.rows, t.diagonal ? Seen{0} : kAllSeen, scale, scores,
                            q.now.m, q.now.l, q.rescale);
  add_weighted_rows<Lanes::queries, typename In::Step>(t, s, scores, v, q.count, {.add = !first, .factor = first ? nullptr : q.rescale},
                                                       q.now.o, prefetch);
}

template <class T>
void store_queries(const Sizes& s, QueryLanes& q, T* o, int64_t o_row, float* lse) {
  if (q.i0 >= kSegment) end_segment(s, q, q.i0 / kSegment);
  const SegmentSums& sums = q.i0 >= kSegment ? q.before : q.now;
  for (int64_t r = 0; r < q.count; ++r) store_output(sums.o + r * s.width(), sums.l[r], s.D, o + r * o_row);
  for_each_block(q.count, [&](At at) HWY_ATTR { at.store(at.load(sums.m) + log(at.load(sums.l)), lse); });
}

// Equation: o_i = sum over j <= i of p_ij v_j, p_ij = exp(s_ij - lse_i), s_ij = scale q_i . k_j, lse_i = log sum exp s_ij.
// Layout:   q, o [B, T, H, D] and k, v [B, T, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    weft/tile/cpu/order.h's. One task per (b, h, span of queries), the longest first.
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
        if (j0 == 0) tile = load_queries<In>(s, {q.row(b, i0, h), q.time, s.rows_from(i0)}, i0, rows, lease);
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
