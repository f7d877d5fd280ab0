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
#include "weft/tile/cpu/heads.h"
#include "weft/tile/cpu/math.h"
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

// The lanes of row r of a tile of scores that are not masked, in whole blocks.
int64_t wanted_lanes(const Scores& t, int64_t r) { return t.diagonal ? near_side<Lanes::keys>(t, r / kBlock * kBlock).count : t.lanes; }

// scores -> p = exp(s - lse), dp -> ds = p (dp - delta). The tiles are a multiple of 4 KiB apart (4K aliasing): a load of dp
// after the store of p at the same offset would stall as if it depended on it.
void scores_to_gradients(const Scores& t, const float* lse, const float* delta, float* scores, float* dp) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const F32x16 base = splat(lse[r]), mean = splat(delta[r]);
    const int64_t lanes = wanted_lanes(t, r);
    for (int64_t lane = 0; lane < lanes; lane += kBlock) {
      float *s = scores + r * kTile + lane, *d = dp + r * kTile + lane;
      const F32x16 p = exp(load(s) - base), centred = load(d) - mean;
      store(p, s);
      store(p * centred, d);
    }
  }
}

// The same, rounded to bf16: p and ds as words of two rows, where the scores and dp of half as many rows were; and ds as rows.
void scores_to_pairs(const Scores& t, float scale, const float* lse, const float* delta, float* scores, float* dp, bf16* ds_rows) {
  struct Block {
    F32x16 p, ds;
  };
  const auto block = [&](int64_t r, int64_t lane) HWY_ATTR {
    const F32x16 centred = load(dp + r * kTile + lane) - splat(delta[r]),
                 p = exp(load(scores + r * kTile + lane) * splat(scale) - splat(lse[r]));
    return Block{p, p * centred};
  };
  for (int64_t r = 0; r < t.rows; r += 2) {
    const bool two = r + 1 < t.rows;
    const int64_t lanes = wanted_lanes(t, r);
    for (int64_t lane = 0; lane < lanes; lane += kBlock) {
      const Block even = block(r, lane), odd = two ? block(r + 1, lane) : Block{zero(), zero()};
      store(round_to_pairs(even.p, odd.p), scores + r / 2 * kTile + lane);
      store(round_to_pairs(even.ds, odd.ds), dp + r / 2 * kTile + lane);
      store(even.ds, ds_rows + r * kTile + lane);
      store(odd.ds, ds_rows + (r + 1) * kTile + lane);
    }
  }
}

// The five matmuls of a tile; the first of a chain starts its sums. Each gradient is a chain over its queries (or keys) in order.
struct First {
  bool of_keys, of_queries;
};
template <class In>
void add_gradients(const Sizes& s, float scale, const Workspace& w, const KeyLanes& k, int64_t j0, First first, PrefetchQueue& prefetch) {
  using Step = typename In::Step;
  constexpr bool kPairs = Step::kElements == 2;
  const QueryRows& q = w.queries;
  const int64_t keys = s.rows_from(j0);
  const Scores t{q.count, padded(keys), j0 == q.i0};
  matmul_of_rows<Lanes::keys, Step>(t, s, q.q.left, k.kt, w.scores, prefetch);
  matmul_of_rows<Lanes::keys, Step>(t, s, q.dout.left, k.vt, w.dp, prefetch);
  if constexpr (kPairs)
    scores_to_pairs(t, scale, q.base, q.mean, w.scores, w.dp, reinterpret_cast<bf16*>(w.ds_rows));
  else
    scores_to_gradients(t, q.base, q.mean, w.scores, w.dp);
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

// A task's share of dq: [group][T][D], started in its first span, and complete at the diagonal if its range is all keys.
struct Share {
  float* dq;
  bool first_span, whole;
};

// A span of keys, from `first` on, of one key head.
struct Place {
  int64_t b, hk, first;
};

// One span of keys against all queries that attend to it; `then` is most likely this thread's next span.
template <class In>
void backward_span(const CausalAttentionBackwardArgs& a, const Sizes& s, const Place& span, const Place& then, const Share& share,
                   Workspace& w) {
  using T = typename In::T;
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v), o = heads<T>(a.o), dout = heads<T>(a.dout);
  const Heads<T> dq = heads<T>(a.dq), dk = heads<T>(a.dk), dv = heads<T>(a.dv);
  const auto [b, hk, first] = span;
  const int64_t last = std::min(s.T, first + kSpan);
  QueryRows& rows = w.queries;
  const auto keys = [&](int64_t j0) -> KeyLanes& { return w.keys[(j0 - first) / kTile]; };
  const int64_t h0 = hk * s.group(), h1 = h0 + s.group();
  PrefetchQueue prefetch;
  // Prefetches the next queries, the keys that they are the first to use, and the memory of results.
  const auto plan = [&](int64_t h, int64_t i0) {
    const int64_t next = i0 + kTile, count = std::min(kTile, s.T - next), tiles = ceil_div(std::min(last, next) - first, kTile);
    prefetch.clear();
    for (const auto& from : {q, dout, o}) prefetch.add(from.row(b, next, h), from.time, count, s.D);
    if (h == h0 && next < last)
      for (const auto& from : {k, v}) prefetch.add(from.row(b, next, hk), from.time, count, s.D);
    if (share.whole && i0 < last) prefetch.add(dq.row(b, i0, h), dq.time, s.rows_from(i0), s.D);
    if (h + 1 == h1 && next >= s.T) {
      for (const auto& to : {dk, dv}) prefetch.add(to.row(b, first, hk), to.time, last - first, s.D);
      for (const auto& from : {k, v}) prefetch.add(from.row(then.b, then.first, then.hk), from.time, s.rows_from(then.first), s.D);
      for (const auto& from : {q, dout, o})
        prefetch.add(from.row(then.b, then.first, then.hk * s.group()), from.time, s.rows_from(then.first), s.D);
    }
    prefetch.spread(5 * kSteps * tiles);
  };
  for (int64_t h = h0; h < h1; ++h)
    for (int64_t i0 = first; i0 < s.T; i0 += kTile) {
      rows.i0 = i0, rows.count = s.rows_from(i0);
      rows.dq = share.dq + ((h - h0) * s.T + i0) * s.width();
      if (h == h0 && i0 < last)
        load_keys<In>(s, keys(i0), {k.row(b, i0, hk), k.time, rows.count}, {v.row(b, i0, hk), v.time, rows.count}, a.scale);
      const OperandTile<T> douts{dout.row(b, i0, h), dout.time, rows.count};
      rows.q = In::both(s, {q.row(b, i0, h), q.time, rows.count}, w.q);
      rows.dout = In::both(s, douts, w.dout);
      inner_products<T>(s, {o.row(b, i0, h), o.time, rows.count}, douts, rows.mean);
      std::copy_n(data<float>(a.lse) + (b * s.H + h) * s.T + i0, rows.count, rows.base);
      plan(h, i0);
      for (int64_t j0 = first; j0 < std::min(last, i0 + kTile); j0 += kTile)
        add_gradients<In>(s, a.scale, w, keys(j0), j0, {.of_keys = h == h0 && i0 == j0, .of_queries = share.first_span && j0 == first},
                          prefetch);
      if (share.whole && i0 < last) store_rows(s, rows.dq, rows.count, a.scale, dq.row(b, i0, h), dq.time);
    }
  for (int64_t j0 = first; j0 < last; j0 += kTile) {
    store_rows(s, keys(j0).dk, s.rows_from(j0), a.scale, dk.row(b, j0, hk), dk.time);
    store_rows(s, keys(j0).dv, s.rows_from(j0), 1, dv.row(b, j0, hk), dv.time);
  }
}

// dq = scale times the sum of the ranges' shares, in order.
template <class T>
void add_ranges(Stream& stream, const CausalAttentionBackwardArgs& a, const Sizes& s, const Ranges& ranges, const float* shares) {
  const Heads<T> dq = heads<T>(a.dq);
  for_each_row_group(stream, s.B * s.H * s.T, s.D, [&](int64_t from, int64_t to) HWY_ATTR {
    for (int64_t r = from; r < to; ++r) {
      const int64_t b = r / (s.H * s.T), h = r / s.T % s.H, t = r % s.T;
      T* out = dq.row(b, t, h);
      for_each_block(s.D, [&](At at) HWY_ATTR {
        F32x16 sum = load(shares + r * s.width() + at.i);
        for (int64_t c = 1; c * ranges.keys <= t; ++c) sum = sum + load(shares + (c * s.B * s.H * s.T + r) * s.width() + at.i);
        at.store(sum * splat(a.scale), out);
      });
    }
  });
}

// Equation: dq_i = scale sum over j <= i of ds_ij k_j, dk_j = scale sum over i >= j of ds_ij q_i, dv_j = sum over i >= j of
//           p_ij do_i; ds_ij = p_ij (do_i . v_j - delta_i), delta_i = o_i . do_i.
// Layout:   as the forward.
// Order:    one task per (range of keys, b, key head), the longest first; spans of keys in order, the heads of the group in
//           order, queries in order, keys of the span in order. With pairs, p and ds are rounded to bf16 before they are multiplied.
// Requires: as the forward.
// Traffic:  k, v, dk and dv once; q, do and o once per span of 256 keys, dq once or, in ranges, once more per range.
template <class In>
void backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  using T = typename In::T;
  const Sizes s(a.q, a.k, In::kGrain);
  const Ranges ranges(s);
  const int64_t pairs = s.B * s.Hkv, tasks = ranges.count * pairs, share = s.group() * s.T * s.width();
  const bool whole = ranges.count == 1;
  ScratchSlots slots(stream, Workspace::floats(s) + (whole ? share : 0), tasks);
  const Scratch<float> shares(stream, whole ? 0 : tasks * share);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const auto place = [&](int64_t t) { return Place{t % pairs / s.Hkv, t % s.Hkv, t / pairs * ranges.keys}; };
    const Place begin = place(task), following = place(std::min(task + 1, tasks - 1));
    ScratchSlots::Lease lease(slots);
    const typename In::Unit unit;
    Workspace work(s, lease);
    float* dq = whole ? lease.take(share) : shares.data() + task * share;
    const int64_t end = std::min(s.T, begin.first + ranges.keys);
    for (Place at = begin; at.first < end; at.first += kSpan) {
      const Place next{at.b, at.hk, at.first + kSpan};
      backward_span<In>(a, s, at, next.first < end ? next : following, {dq, at.first == begin.first, whole}, work);
    }
  });
  if (!whole) add_ranges<T>(stream, a, s, ranges, shares.data());
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
