// The backward pass: the keys are the lanes, their two gradients are rows accumulated in place, and the queries are streamed once as
// rows.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_BACKWARD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_BACKWARD_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_BACKWARD_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_BACKWARD_H_
#endif

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/cpu/scores.h"
#include "weft/ops/causal_attention/cpu/sequences.h"
#include "weft/tile/cpu/scratch_slots.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// 64 keys: k and v as lanes, k and both gradients as rows [64][D].
struct KeyLanes {
  float *kt, *vt, *tile, *dk, *dv;
  TileRows k;
};

// 64 queries as rows [64][D], their statistics, and their gradient, to which tiles of keys are added.
struct QueryRows {
  Factors q, dout;
  float *base, *mean, *dq;
  int64_t i0, count;
};

// The workspace of a task: a span of keys, a tile of queries and their scores.
struct Workspace {
  KeyLanes keys[kSpan / kTile];
  QueryRows queries;
  float *q, *dout, *scores, *dp, *ds_rows;  // the last for pairs only

  static int64_t floats(const Sizes& s) { return (5 * kSpan / kTile + 2) * s.tile() + 5 * kTile * kTile / 2 + 2 * kTile; }
  Workspace(const Sizes& s, ScratchSlots::Lease& lease)
      : queries{{}, {}, lease.take(kTile), lease.take(kTile), nullptr, 0, 0},
        q(lease.take(s.tile())),
        dout(lease.take(s.tile())),
        scores(lease.take(kTile * kTile)),
        dp(lease.take(kTile * kTile)),
        ds_rows(lease.take(kTile * kTile / 2)) {
    for (KeyLanes& k : keys)
      k = {lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile()), {}};
  }
};

template <class In>
void load_keys(const Sizes& s, KeyLanes& to, const OperandTile<typename In::T>& k, const OperandTile<typename In::T>& v, float scale) {
  In::lanes(s, v, 1, to.tile, to.vt);
  to.k = In::lanes_and_right(s, k, scale, to.tile, to.kt);
}

// mean[i] = o_i . do_i, sixteen rows at a time.
template <class T>
void inner_products(const Sizes& s, const OperandTile<T>& o, const OperandTile<T>& dout, float* mean) {
  alignas(64) float blocks[kBlock * kBlock] = {};
  for (int64_t first = 0; first < o.count; first += kBlock) {
    for (int64_t r = first; r < std::min(o.count, first + kBlock); ++r) {
      store(reduce_blocks(
                s.D, 0.0f, [&](At at) HWY_ATTR { return at.load(o.at + r * o.row) * at.load(dout.at + r * dout.row); },
                [](F32x16 x, F32x16 z) HWY_ATTR { return x + z; }),
            blocks + (r - first) * kBlock);
    }
    store(sums_of_blocks(blocks), mean + first);
  }
}

// The lanes of row r of a tile of scores that are used, in whole blocks. Where a window cuts the tile all are: those without a key get
// zeros, which AMX multiplies.
int64_t wanted_lanes(const Scores& t, int64_t r) {
  return t.band ? kTile : t.diagonal ? near_side<Lanes::keys>(t, r / kBlock * kBlock).count : t.lanes;
}

// p and ds of sixteen keys and one query.
struct Gradients {
  F32x16 p, ds;
};

// p = exp(s - lse), ds = p (dp - delta), for scores s that are scaled.
struct PlainGradients {
  HWY_INLINE Gradients operator()(int64_t, int64_t, F32x16 s, F32x16 dp, float lse, float delta) const {
    const F32x16 p = exp(s - splat(lse)), centred = dp - splat(delta);
    return {p, p * centred};
  }
};

// The same with a soft cap, and zeros outside of a band.
struct CappedGradients {
  float cap;
  Band band;

  HWY_INLINE Gradients operator()(int64_t r, int64_t lane, F32x16 s, F32x16 dp, float lse, float delta) const {
    F32x16 slope = splat(1.0f);
    if (cap > 0) {
      const F32x16 t = tanh(s * splat(1 / cap));
      s = splat(cap) * t;
      slope = fnma(t, t, slope);
    }
    const F32x16 p = exp(s - splat(lse)), ds = p * (dp - splat(delta)) * slope;
    if (!band) return {p, ds};
    const Range keys = keys_of(band, r);
    const F32x16 number = lane_numbers(), first = splat(float(keys.first - lane)), last = splat(float(keys.last - lane));
    const auto seen = [&](F32x16 x) HWY_ATTR { return select(number < first, zero(), select(number < last, x, zero())); };
    return {seen(p), seen(ds)};
  }
};

// scores -> p, dp -> ds. The tiles are a multiple of 4 KiB apart (4K aliasing): a load of dp after the store of p at the same offset would
// stall as if it depended on it.
template <class GradientsOf>
void scores_to_gradients(const Scores& t, GradientsOf of, const float* lse, const float* delta, float* scores, float* dp) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t lanes = wanted_lanes(t, r);
    for (int64_t lane = 0; lane < lanes; lane += kBlock) {
      float *s = scores + r * kTile + lane, *d = dp + r * kTile + lane;
      const Gradients g = of(r, lane, load(s), load(d), lse[r], delta[r]);
      store(g.p, s);
      store(g.ds, d);
    }
  }
}

// The same, rounded to bf16: p and ds as words of two rows, where the scores and dp of half as many rows were; and ds as rows.
template <class GradientsOf>
void scores_to_pairs(const Scores& t, GradientsOf of, float scale, const float* lse, const float* delta, float* scores, float* dp,
                     bf16* ds_rows) {
  const auto block = [&](int64_t r, int64_t lane) HWY_ATTR {
    return of(r, lane, load(scores + r * kTile + lane) * splat(scale), load(dp + r * kTile + lane), lse[r], delta[r]);
  };
  for (int64_t r = 0; r < t.rows; r += 2) {
    const bool two = r + 1 < t.rows;
    const int64_t lanes = wanted_lanes(t, r);
    for (int64_t lane = 0; lane < lanes; lane += kBlock) {
      const Gradients even = block(r, lane), odd = two ? block(r + 1, lane) : Gradients{zero(), zero()};
      store(round_to_pairs(even.p, odd.p), scores + r / 2 * kTile + lane);
      store(round_to_pairs(even.ds, odd.ds), dp + r / 2 * kTile + lane);
      store(even.ds, ds_rows + r * kTile + lane);
      store(odd.ds, ds_rows + (r + 1) * kTile + lane);
    }
  }
}

template <class In, class GradientsOf>
void to_gradients(const Scores& t, const ScoreRule& rule, const Workspace& w, GradientsOf of) {
  const QueryRows& q = w.queries;
  if constexpr (In::Step::kElements == 2)
    scores_to_pairs(t, of, rule.scale, q.base, q.mean, w.scores, w.dp, reinterpret_cast<bf16*>(w.ds_rows));
  else
    scores_to_gradients(t, of, q.base, q.mean, w.scores, w.dp);
}

// The five matmuls of a tile; the first of a chain starts its sums. Each gradient is a chain over its queries (or keys) in order.
struct First {
  bool of_keys, of_queries;
};
template <class In>
void add_gradients(const Sizes& s, const ScoreRule& rule, const Workspace& w, const KeyLanes& k, int64_t j0, First first,
                   PrefetchQueue& prefetch) {
  using Step = typename In::Step;
  constexpr bool kPairs = Step::kElements == 2;
  const QueryRows& q = w.queries;
  const int64_t keys = s.rows_from(j0);
  const Scores t = rule.tile(q.count, padded(keys), q.i0, q.count, j0);
  matmul_of_rows<Lanes::keys, Step>(t, s, q.q.left, k.kt, w.scores, prefetch);
  matmul_of_rows<Lanes::keys, Step>(t, s, q.dout.left, k.vt, w.dp, prefetch);
  if (rule.soft_cap > 0 || t.band)
    to_gradients<In>(t, rule, w, CappedGradients{rule.soft_cap, t.band});
  else
    to_gradients<In>(t, rule, w, PlainGradients());
  add_weighted_rows<Lanes::keys, Step>(t, s, w.scores, q.dout.right, keys, {.add = !first.of_keys}, k.dv, prefetch);
  add_weighted_rows<Lanes::keys, Step>(t, s, w.dp, q.q.right, keys, {.add = !first.of_keys}, k.dk, prefetch);
  const TileMatmulBy<Step> dq{.m = q.count,
                              .n = s.width(),
                              .k = ceil_div(keys, Step::kElements),
                              .a = kPairs ? w.ds_rows : w.dp,
                              .a_row = kTile / Step::kElements,
                              .a_step = 1,
                              .b = k.k.at,
                              .b_row = k.k.step,
                              .c = q.dq,
                              .c_row = s.width(),
                              .add = !first.of_queries,
                              .prefetch = &prefetch};
  if (t.band) return banded_matmul(dq, [&](int64_t query) { return keys_of(t.band, query); });
  t.diagonal ? triangle_matmul<Steps::through_row>(dq) : tile_matmul<Step>(dq);
}

// Tasks of the backward, by shape alone: a task owns a range of the keys of one key head, so that dk and dv are its own.
// Its share of dq is complete if the range is all keys; else the ranges are added up in order. Four at most, since each costs a copy of
// dq.
struct Ranges {
  int64_t count, keys;

  explicit Ranges(const Sizes& s) {
    const int64_t spans = ceil_div(s.T, kSpan);
    keys = (s.B * s.Hkv >= 16 ? spans : ceil_div(spans, 4)) * kSpan;
    count = ceil_div(s.T, keys);
  }
};

// A span of keys, from `first` on, of one key head, in the range of keys from `range` on.
struct Place {
  int64_t b, hk, first, range;
};

// One sequence, or B of equal length: one task per (range of keys, b, key head), the longest first.
template <class In>
class SequenceBackward {
  using T = typename In::T;

 public:
  SequenceBackward(const CausalAttentionBackwardArgs& a, const Sequence& at)
      : s_(sizes(a, at)),
        rule_(a.scale, a.soft_cap, a.window, at.tokens),
        ranges_(s_),
        q_(from_token(heads<T>(a.q), at.first)),
        k_(from_token(heads<T>(a.k), at.first)),
        v_(from_token(heads<T>(a.v), at.first)),
        o_(from_token(heads<T>(a.o), at.first)),
        dout_(from_token(heads<T>(a.dout), at.first)),
        dq_(from_token(heads<T>(a.dq), at.first)),
        dk_(from_token(heads<T>(a.dk), at.first)),
        dv_(from_token(heads<T>(a.dv), at.first)),
        lse_(data<float>(a.lse) + at.first),
        lse_row_(a.lse.shape[2]) {}

  int64_t tasks() const { return ranges_.count * pairs(); }
  bool whole() const { return ranges_.count == 1; }
  // Of a task's share of dq, [group][T][D].
  int64_t share() const { return s_.group() * s_.T * s_.width(); }
  int64_t floats() const { return Workspace::floats(s_) + (whole() ? share() : 0); }
  // Of all shares, if they are to be added up; the caller owns them.
  int64_t floats_of_shares() const { return whole() ? 0 : tasks() * share(); }
  void set_shares(float* shares) { shares_ = shares; }

  void run(int64_t task, ScratchSlots::Lease& lease) const {
    const Place begin = place(task), following = place(std::min(task + 1, tasks() - 1));
    Workspace work(s_, lease);
    float* dq = whole() ? lease.take(share()) : shares_ + task * share();
    const int64_t end = std::min(s_.T, begin.first + ranges_.keys);
    for (Place at = begin; at.first < end; at.first += kSpan) {
      const Place next{at.b, at.hk, at.first + kSpan, at.range};
      run_span(at, next.first < end ? next : following, dq, work);
    }
  }

  // dq = scale times the sum of the ranges' shares, in order.
  void add_ranges(Stream& stream) const {
    for_each_row_group(stream, s_.B * s_.H * s_.T, s_.D, [&](int64_t from, int64_t to) HWY_ATTR {
      for (int64_t r = from; r < to; ++r) add_shares(r);
    });
  }

 private:
  static Sizes sizes(const CausalAttentionBackwardArgs& a, const Sequence& at) {
    Sizes s(a.q, a.k, In::kGrain);
    s.T = at.tokens;
    return s;
  }
  // The shares of row r of dq, of the ranges whose keys its tile of queries attends to.
  void add_shares(int64_t r) const {
    const int64_t b = r / (s_.H * s_.T), h = r / s_.T % s_.H, t = r % s_.T;
    const int64_t first = rule_.first_key(t / kTile * kTile) / ranges_.keys;
    const auto share = [&](int64_t range) { return shares_ + (range * s_.B * s_.H * s_.T + r) * s_.width(); };
    for_each_block(s_.D, [&](At at) HWY_ATTR {
      F32x16 sum = load(share(first) + at.i);
      for (int64_t c = first + 1; c * ranges_.keys <= t; ++c) sum = sum + load(share(c) + at.i);
      at.store(sum * splat(rule_.scale), dq_.row(b, t, h));
    });
  }
  int64_t pairs() const { return s_.B * s_.Hkv; }
  Place place(int64_t task) const {
    const int64_t first = task / pairs() * ranges_.keys;
    return {task % pairs() / s_.Hkv, task % s_.Hkv, first, first};
  }

  // One span of keys against all queries that attend to it; `then` is most likely this thread's next span. dq is complete at the diagonal
  // if the range is all keys.
  void run_span(const Place& span, const Place& then, float* share, Workspace& w) const {
    const auto [b, hk, first, range] = span;
    const int64_t last = std::min(s_.T, first + kSpan), queries = std::min(s_.T, rule_.last_query(last));
    QueryRows& rows = w.queries;
    const auto keys = [&](int64_t j0) -> KeyLanes& { return w.keys[(j0 - first) / kTile]; };
    const int64_t h0 = hk * s_.group(), h1 = h0 + s_.group();
    PrefetchQueue prefetch;
    for (int64_t h = h0; h < h1; ++h)
      for (int64_t i0 = first; i0 < queries; i0 += kTile) {
        rows.i0 = i0, rows.count = s_.rows_from(i0);
        rows.dq = share + ((h - h0) * s_.T + i0) * s_.width();
        if (h == h0 && i0 < last)
          load_keys<In>(s_, keys(i0), {k_.row(b, i0, hk), k_.time, rows.count}, {v_.row(b, i0, hk), v_.time, rows.count}, rule_.scale);
        load_queries(b, h, i0, w);
        plan(prefetch, span, then, h, i0, queries);
        const int64_t first_key = rule_.first_key(i0);
        for (int64_t j0 = std::max(first, first_key); j0 < std::min(last, i0 + kTile); j0 += kTile)
          add_gradients<In>(s_, rule_, w, keys(j0), j0, {.of_keys = h == h0 && i0 == j0, .of_queries = j0 == std::max(range, first_key)},
                            prefetch);
        if (whole() && i0 < last) store_rows(s_, rows.dq, rows.count, rule_.scale, dq_.row(b, i0, h), dq_.time);
      }
    for (int64_t j0 = first; j0 < last; j0 += kTile) {
      store_rows(s_, keys(j0).dk, s_.rows_from(j0), rule_.scale, dk_.row(b, j0, hk), dk_.time);
      store_rows(s_, keys(j0).dv, s_.rows_from(j0), 1, dv_.row(b, j0, hk), dv_.time);
    }
  }

  // q, dout, lse and delta of the queries from i0 on.
  void load_queries(int64_t b, int64_t h, int64_t i0, Workspace& w) const {
    QueryRows& rows = w.queries;
    const OperandTile<T> douts{dout_.row(b, i0, h), dout_.time, rows.count};
    rows.q = In::both(s_, {q_.row(b, i0, h), q_.time, rows.count}, w.q);
    rows.dout = In::both(s_, douts, w.dout);
    inner_products<T>(s_, {o_.row(b, i0, h), o_.time, rows.count}, douts, rows.mean);
    std::copy_n(lse_ + (b * s_.H + h) * lse_row_ + i0, rows.count, rows.base);
  }

  // Prefetches the next queries, the keys that they are the first to use, and the memory of results.
  void plan(PrefetchQueue& prefetch, const Place& span, const Place& then, int64_t h, int64_t i0, int64_t queries) const {
    const auto [b, hk, first, range] = span;
    const int64_t last = std::min(s_.T, first + kSpan), h0 = hk * s_.group(), h1 = h0 + s_.group();
    const int64_t next = i0 + kTile, count = next < queries ? s_.rows_from(next) : 0, tiles = ceil_div(std::min(last, next) - first, kTile);
    prefetch.clear();
    for (const auto& from : {q_, dout_, o_}) prefetch.add(from.row(b, next, h), from.time, count, s_.D);
    if (h == h0 && next < last)
      for (const auto& from : {k_, v_}) prefetch.add(from.row(b, next, hk), from.time, count, s_.D);
    if (whole() && i0 < last) prefetch.add(dq_.row(b, i0, h), dq_.time, s_.rows_from(i0), s_.D);
    if (h + 1 == h1 && next >= queries) {
      for (const auto& to : {dk_, dv_}) prefetch.add(to.row(b, first, hk), to.time, last - first, s_.D);
      for (const auto& from : {k_, v_}) prefetch.add(from.row(then.b, then.first, then.hk), from.time, s_.rows_from(then.first), s_.D);
      for (const auto& from : {q_, dout_, o_})
        prefetch.add(from.row(then.b, then.first, then.hk * s_.group()), from.time, s_.rows_from(then.first), s_.D);
    }
    prefetch.spread(5 * kSteps * tiles);
  }

  Sizes s_;
  ScoreRule rule_;
  Ranges ranges_;
  Heads<const T> q_, k_, v_, o_, dout_;
  Heads<T> dq_, dk_, dv_;
  const float* lse_;
  int64_t lse_row_;
  float* shares_ = nullptr;
};

// Equation: dq_i = scale sum over j of ds_ij k_j, dk_j = scale sum over i of ds_ij q_i, dv_j = sum over i of p_ij do_i, over the pairs of
//           the forward; ds_ij = p_ij (do_i . v_j - delta_i), times 1 - (s_ij / cap)^2 with a soft cap; delta_i = o_i . do_i.
// Layout:   as the forward.
// Order:    one task per (document, range of keys, b, key head); spans of keys in order, the heads of the group in order, queries in
//           order, keys of the span in order. With pairs, p and ds are rounded to bf16 before they are multiplied.
// Requires: as the forward.
// Traffic:  k, v, dk and dv once; q, do and o once per span of 256 keys, dq once or, in ranges, once more per range.
template <class In>
void backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  WorkList<SequenceBackward<In>> all;
  for (const Sequence& at : sequences_of(stream, a.documents, a.q.shape[1])) all.add({a, at});
  int64_t floats = 0, floats_of_shares = 0;
  for (const auto& work : all.work()) {
    floats = std::max(floats, work.floats());
    floats_of_shares += work.floats_of_shares();
  }
  ScratchSlots slots(stream, floats, all.tasks());
  const Scratch<float> shares(stream, floats_of_shares);
  int64_t used = 0;
  for (auto& work : all.work()) {
    work.set_shares(shares.data() + used);
    used += work.floats_of_shares();
  }
  parallel_for(all.tasks(), threads(stream), [&](int64_t task) HWY_ATTR {
    ScratchSlots::Lease lease(slots);
    const typename In::Unit unit;
    all.at(task, [&](const SequenceBackward<In>& work, int64_t own) { work.run(own, lease); });
  });
  for (const auto& work : all.work())
    if (!work.whole()) work.add_ranges(stream);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
