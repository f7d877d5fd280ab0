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
#include "weft/ops/causal_attention/cpu/sequences.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// 64 queries: q as lanes; sums of the present segment of keys and, if T has several, of those before; rescale [64].
struct QueryLanes {
  float *qt, *rescale;
  SegmentSums now, before;
  int64_t i0, count, first_key;

  static int64_t floats(const Sizes& s) { return s.tile() + kTile + (s.T > kSegment ? 2 : 1) * SegmentSums::floats(s.width()); }
};

template <class In>
QueryLanes load_queries(const Sizes& s, const OperandTile<typename In::T>& q, int64_t i0, int64_t first_key, float* rows,
                        ScratchSlots::Lease& lease) {
  const auto sums = [&] { return SegmentSums(lease.take(SegmentSums::floats(s.width())), s.width()); };
  QueryLanes t{lease.take(s.tile()), lease.take(kTile), sums(), {}, i0, q.count, first_key};
  if (s.T > kSegment) t.before = sums();
  In::lanes(s, q, 1, rows, t.qt);
  t.now.clear();
  return t;
}

// The segment of q.now is complete: merges it with those before.
inline void end_segment(const Sizes& s, QueryLanes& q, int64_t segment) {
  if (segment == q.first_key / kSegment)
    std::swap(q.now, q.before);
  else
    q.before.merge(q.now, s.width(), q.count);
}

// One tile of keys and values, as rows, for 64 queries.
template <class In>
void attend(const Sizes& s, const ScoreRule& rule, QueryLanes& q, int64_t j0, const TileRows& k, const TileRows& v, float* scores,
            PrefetchQueue& prefetch) {
  const bool first = j0 == q.first_key || j0 % kSegment == 0;
  if (first && j0 > q.first_key) {
    end_segment(s, q, j0 / kSegment - 1);
    q.now.clear();
  }
  const Scores t = rule.tile(s.rows_from(j0), padded(q.count), q.i0, q.count, j0);
  matmul_of_rows<Lanes::queries, typename In::Step>(t, s, k, q.qt, scores, prefetch);
  if (rule.soft_cap > 0) cap_scores(t, rule, scores);
  const float scale = rule.soft_cap > 0 ? 1 : rule.scale;
  if (!t.diagonal && !t.band && t.lanes == kTile)
    online_softmax<In, 4>(0, t.rows, kAllSeen, scale, scores, q.now.m, q.now.l, q.rescale);
  else
    for (int64_t lane = 0; lane < t.lanes; lane += kBlock)
      if (t.band)
        online_softmax<In, 1>(lane, t.rows, SeenInBand{t.band}, scale, scores, q.now.m, q.now.l, q.rescale);
      else
        online_softmax<In, 1>(lane, t.diagonal ? std::min(t.rows, lane + kBlock) : t.rows, t.diagonal ? Seen{0} : kAllSeen, scale, scores,
                              q.now.m, q.now.l, q.rescale);
  add_weighted_rows<Lanes::queries, typename In::Step>(t, s, scores, v, q.count, {.add = !first, .factor = first ? nullptr : q.rescale},
                                                       q.now.o, prefetch);
}

template <class T>
void store_queries(const Sizes& s, QueryLanes& q, T* o, int64_t o_row, float* lse) {
  const int64_t last_segment = q.i0 / kSegment;
  const bool several = last_segment > q.first_key / kSegment;
  if (several) end_segment(s, q, last_segment);
  const SegmentSums& sums = several ? q.before : q.now;
  for (int64_t r = 0; r < q.count; ++r) store_output(sums.o + r * s.width(), sums.l[r], s.D, o + r * o_row);
  for_each_block(q.count, [&](At at) HWY_ATTR { at.store(at.load(sums.m) + log(at.load(sums.l)), lse); });
}

// One sequence, or B of equal length: one task per (b, h, span of queries), the longest first.
template <class In>
class SequenceForward {
  using T = typename In::T;

 public:
  SequenceForward(const CausalAttentionArgs& a, const Sequence& at)
      : s_(sizes(a, at)),
        rule_(a.scale, a.soft_cap, a.window, at.tokens),
        q_(from_token(heads<T>(a.q), at.first)),
        k_(from_token(heads<T>(a.k), at.first)),
        v_(from_token(heads<T>(a.v), at.first)),
        o_(from_token(heads<T>(a.o), at.first)),
        lse_(data<float>(a.lse) + at.first),
        lse_row_(a.lse.shape[2]),
        span_(s_.B * s_.H * ceil_div(s_.T, kSpan) >= 32 ? kSpan : kTile),  // short work: more tasks
        spans_(ceil_div(s_.T, span_)) {}

  int64_t tasks() const { return s_.B * s_.H * spans_; }
  int64_t floats() const { return span_ / kTile * QueryLanes::floats(s_) + 3 * s_.tile() + kTile * kTile; }

  void run(int64_t task, ScratchSlots::Lease& lease) const {
    const auto [b, h, hk, first] = place(task);
    const int64_t last = std::min(s_.T, first + span_);
    float *kr = lease.take(s_.tile()), *vr = lease.take(s_.tile()), *rows = lease.take(s_.tile()), *scores = lease.take(kTile * kTile);
    QueryLanes tiles[kSpan / kTile];
    PrefetchQueue prefetch;
    for (int64_t j0 = rule_.first_key(first); j0 < last; j0 += kTile) {
      const TileRows keys = In::left(s_, {k_.row(b, j0, hk), k_.time, s_.rows_from(j0)}, kr);
      const TileRows values = In::right(s_, {v_.row(b, j0, hk), v_.time, s_.rows_from(j0)}, vr);
      const int64_t begin = std::max(first, j0), end = std::min(last, rule_.last_query(j0 + kTile));
      for (int64_t i0 = begin; i0 < end; i0 += kTile) {
        QueryLanes& tile = tiles[(i0 - first) / kTile];
        const int64_t first_key = rule_.first_key(i0);
        if (j0 == first_key) tile = load_queries<In>(s_, {q_.row(b, i0, h), q_.time, s_.rows_from(i0)}, i0, first_key, rows, lease);
        plan(prefetch, task, j0, i0);
        attend<In>(s_, rule_, tile, j0, keys, values, scores, prefetch);
        if (i0 == j0) store_queries(s_, tile, o_.row(b, i0, h), o_.time, lse_ + (b * s_.H + h) * lse_row_ + i0);
      }
    }
  }

 private:
  struct Place {
    int64_t b, h, hk, first;
  };

  static Sizes sizes(const CausalAttentionArgs& a, const Sequence& at) {
    Sizes s(a.q, a.k, In::kGrain);
    s.T = at.tokens;
    return s;
  }
  Place place(int64_t task) const {
    return {task % (s_.B * s_.H) / s_.H, task % s_.H, task % s_.H / s_.group(), (spans_ - 1 - task / (s_.B * s_.H)) * span_};
  }
  // Prefetches what the tile of queries from i0 on does not use but the next ones do.
  void plan(PrefetchQueue& prefetch, int64_t task, int64_t j0, int64_t i0) const {
    const auto [b, h, hk, first] = place(task);
    const int64_t last = std::min(s_.T, first + span_), begin = std::max(first, j0), share = kTile / ceil_div(last - begin, kTile) + 1;
    const int64_t next = j0 + kTile + (i0 - begin) / kTile * share, count = std::min(share, last - next);
    prefetch.clear();
    if (j0 == 0) prefetch.add(q_.row(b, i0 + kTile, h), q_.time, std::min(kTile, last - i0 - kTile), s_.D);
    prefetch.add(k_.row(b, next, hk), k_.time, count, s_.D);
    prefetch.add(v_.row(b, next, hk), v_.time, count, s_.D);
    if (i0 == j0) prefetch.add(o_.row(b, i0, h), o_.time, s_.rows_from(i0), s_.D);
    if (j0 + kTile >= last && task + 1 < tasks()) {  // most likely this thread's next
      const auto then = place(task + 1);
      prefetch.add(q_.row(then.b, then.first, then.h), q_.time, s_.rows_from(then.first), s_.D);
      for (const auto& from : {k_, v_}) prefetch.add(from.row(then.b, 0, then.hk), from.time, s_.rows_from(0), s_.D);
    }
    prefetch.spread(2 * kSteps);
  }

  Sizes s_;
  ScoreRule rule_;
  Heads<const T> q_, k_, v_;
  Heads<T> o_;
  float* lse_;
  int64_t lse_row_, span_, spans_;
};

// Equation: o_i = sum over j of p_ij v_j, p_ij = exp(s_ij - lse_i), s_ij = scale q_i . k_j (or its soft cap), lse_i = log sum exp s_ij;
//           j <= i of i's document and within its window.
// Layout:   q, o [B, T, H, D] and k, v [B, T, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    weft/tile/cpu/order.h's, from the first token of a document on. Tasks are (document, b, h, span of queries).
// Requires: unit stride over D, D <= 256 (the contract's). A NaN reaches only the queries that attend to it.
// Traffic:  q once, o once; k and v once per span of queries, mostly from cache.
template <class In>
void forward(Stream& stream, const CausalAttentionArgs& a) {
  WorkList<SequenceForward<In>> all;
  for (const Sequence& at : sequences_of(stream, a.documents, a.q.shape[1])) all.add({a, at});
  int64_t floats = 0;
  for (const auto& work : all.work()) floats = std::max(floats, work.floats());
  ScratchSlots slots(stream, floats, all.tasks());
  parallel_for(all.tasks(), threads(stream), [&](int64_t task) HWY_ATTR {
    ScratchSlots::Lease lease(slots);
    const typename In::Unit unit;
    all.at(task, [&](const SequenceForward<In>& work, int64_t own) { work.run(own, lease); });
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
