// Two sides of one idea: the scores of a tile of 64 by 64 lie in vectors along one side, and the other side passes by in
// rows that are only ever broadcast, so nothing is transposed but the side that stays. In the forward pass the queries
// stay (softmax runs down the lanes, with no folding of vectors); in the backward pass the keys stay, whose two gradients
// are accumulated in place while the queries pass by once. On the diagonal half of the tile is left out.
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/tile/cpu/heads.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/causal_attention/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/tile_product.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

namespace {

constexpr int64_t kTile = 64;         // lanes of a tile, and rows that pass by at a time
constexpr int64_t kSteps = kTile / 6;  // register blocks of a product, at least: how often it asks for rows ahead
constexpr int64_t kSpan = 4 * kTile;  // of one side: what is loaded of the other serves four tiles, and all of it fits L2

struct Sizes {
  int64_t B, T, H, Hkv, D;

  Sizes(const View& q, const View& k) : B(q.shape[0]), T(q.shape[1]), H(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]) {}
  int64_t group() const { return H / Hkv; }
  int64_t width() const { return ceil_div(D, kBlock) * kBlock; }  // of a row in a tile
  int64_t tile() const { return kTile * width(); }
  int64_t rows_from(int64_t first) const { return std::min(kTile, T - first); }
};

// Scores of `rows` rows against `lanes` lanes (a multiple of 16), in a tile [64][64]. On the diagonal, row r and lane r
// are the same token.
struct Scores {
  int64_t rows, lanes;
  bool diagonal;
};

int64_t padded(int64_t n) { return ceil_div(n, kBlock) * kBlock; }

// Which lanes see row k of a triangle: queries from k on, keys up to k.
constexpr Lanes kQueries = Lanes::from_k, kKeys = Lanes::through_k;

// The lanes of a diagonal tile that take part in the sixteen rows from `row` on, triangle included.
struct LaneRange {
  int64_t first, count;
};
template <Lanes kSide>
LaneRange near_side(const Scores& t, int64_t row) {
  return kSide == kQueries ? LaneRange{row, t.lanes - row} : LaneRange{0, row + kBlock};
}

// c[rows][64] = rows[.][D] times lanes[D][64]: scores, or do . v.
template <Lanes kSide>
void product_of_rows(const Scores& t, const Sizes& s, const float* rows, const float* lanes, float* c, FetchAhead& ahead) {
  const auto over = [&](int64_t row, int64_t count, LaneRange range) {
    product({.m = count, .n = range.count, .k = s.D, .a = rows + row * s.width(), .a_row = s.width(), .a_step = 1, .b = lanes + range.first,
             .b_row = kTile, .c = c + row * kTile + range.first, .c_row = kTile, .add = false, .meanwhile = &ahead});
  };
  if (!t.diagonal) return over(0, t.rows, {0, t.lanes});
  for (int64_t row = 0; row < t.rows; row += kBlock) over(row, std::min<int64_t>(kBlock, t.rows - row), near_side<kSide>(t, row));
}

// sums[D][64] = factor sums + rows[.][D]^T times weights[rows][64]; factor [64], or 1 when there is none.
template <Lanes kSide>
void add_weighted_rows(const Scores& t, const Sizes& s, const float* rows, const float* weights, float* sums, FetchAhead& ahead, const float* factor = nullptr) {
  const TileProduct p{.m = s.D, .n = t.lanes, .k = t.rows, .a = rows, .a_row = 1, .a_step = s.width(), .b = weights, .b_row = kTile,
                      .c = sums, .c_row = kTile, .add = true, .factor = factor, .meanwhile = &ahead};
  t.diagonal ? lane_triangle_product<kSide>(p) : product(p);
}

// ---- forward: queries in the lanes

// kBlocks blocks of queries from `lane` on: the scores of their rows become p relative to the new running maximum m; l is
// the running sum, rescale what earlier sums are worth now. Row r >= full is seen by the lanes from r - full on.
template <int kBlocks>
void online_softmax(int64_t lane, int64_t rows, int64_t full, float* scores, float* m, float* l, float* rescale) {
  const F32x16 none = splat(-HUGE_VALF), number = lane_numbers();
  const auto score = [&](int64_t r, int j) HWY_ATTR { return load(scores + r * kTile + lane + j * kBlock); };
  const auto where_seen = [&](int64_t r, F32x16 x, F32x16 otherwise) HWY_ATTR { return r < full ? x : select(number < splat(float(r - full)), otherwise, x); };
  F32x16 most[kBlocks], base[kBlocks], sum[kBlocks];
  for (int j = 0; j < kBlocks; ++j) most[j] = load(m + lane + j * kBlock);
  for (int64_t r = 0; r < rows; ++r)
    for (int j = 0; j < kBlocks; ++j) most[j] = larger(most[j], where_seen(r, score(r, j), none));  // a NaN is not kept here, but in its p
  for (int j = 0; j < kBlocks; ++j) {
    const int64_t at = lane + j * kBlock;
    base[j] = select(none < most[j], most[j], zero());  // all scores -inf so far: p = 0, not NaN
    const F32x16 factor = exp(load(m + at) - base[j]);
    sum[j] = load(l + at) * factor;
    store(most[j], m + at);
    store(factor, rescale + at);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int j = 0; j < kBlocks; ++j) {
      const F32x16 p = where_seen(r, exp(score(r, j) - base[j]), zero());  // not exp(-inf): an underflow takes the CPU 100 cycles
      store(p, scores + r * kTile + lane + j * kBlock);
      sum[j] = sum[j] + p;
    }
  for (int j = 0; j < kBlocks; ++j) store(sum[j], l + lane + j * kBlock);
}

// 64 queries: q scaled and o, both transposed [D][64]; m, l and rescale [64].
struct QueryLanes {
  float *qt, *ot, *m, *l, *rescale;
  int64_t i0, count;

  static int64_t floats(const Sizes& s) { return 2 * s.tile() + 3 * kTile; }
};

template <class T>
QueryLanes load_queries(const Sizes& s, const T* q, int64_t q_row, float scale, int64_t i0, float* rows, ScratchSlots::Lease& lease) {
  const QueryLanes t{lease.take(s.tile()), lease.take(s.tile()), lease.take(kTile), lease.take(kTile), lease.take(kTile), i0, s.rows_from(i0)};
  load_tile(q, q_row, t.count, s.D, padded(t.count), scale, rows);
  transpose(padded(t.count), s.width(), rows, s.width(), t.qt, kTile);
  std::fill_n(t.ot, s.tile(), 0.0f);
  std::fill_n(t.m, kTile, -HUGE_VALF);
  std::fill_n(t.l, kTile, 0.0f);
  return t;
}

// One tile of keys and values, as rows, for 64 queries.
void attend(const Sizes& s, const QueryLanes& q, int64_t j0, const float* k, const float* v, float* scores, FetchAhead& ahead) {
  const Scores t{s.rows_from(j0), padded(q.count), j0 == q.i0};
  product_of_rows<kQueries>(t, s, k, q.qt, scores, ahead);
  if (!t.diagonal && t.lanes == kTile)
    online_softmax<4>(0, t.rows, t.rows, scores, q.m, q.l, q.rescale);
  else
    for (int64_t lane = 0; lane < t.lanes; lane += kBlock)
      online_softmax<1>(lane, t.diagonal ? std::min(t.rows, lane + kBlock) : t.rows, t.diagonal ? lane : t.rows, scores, q.m, q.l, q.rescale);
  add_weighted_rows<kQueries>(t, s, v, scores, q.ot, ahead, q.rescale);
}

template <class T>
void store_queries(const Sizes& s, const QueryLanes& q, float* rows, T* o, int64_t o_row, float* lse) {
  transpose(s.width(), padded(q.count), q.ot, kTile, rows, s.width());
  for (int64_t r = 0; r < q.count; ++r) store_tile(rows + r * s.width(), 1, s.D, 1.0f / q.l[r], o + r * o_row, 0);
  for_each_block(q.count, [&](At at) HWY_ATTR { at.store(at.load(q.m) + log(at.load(q.l)), lse); });
}

// Equation: o_i = sum over j <= i of p_ij v_j, p_ij = exp(s_ij - lse_i), s_ij = scale q_i . k_j, lse_i = log sum exp s_ij.
// Layout:   q, o [B, T, H, D] and k, v [B, T, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    one task per (b, h, span of queries), the longest first; keys in order, in blocks of 64 with a running maximum.
// Requires: unit stride over D, D <= 256 (the contract's). A NaN reaches only the queries that see it.
// Traffic:  q once, o once; k and v once per span of queries, mostly from cache.
template <class T>
void forward(Stream& stream, const CausalAttentionArgs& a) {
  const Sizes s(a.q, a.k);
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v);
  const Heads<T> o = heads<T>(a.o);
  const int64_t span = s.B * s.H * ceil_div(s.T, kSpan) >= 32 ? kSpan : kTile;  // short work: more tasks
  const int64_t spans = ceil_div(s.T, span), tasks = s.B * s.H * spans;
  ScratchSlots slots(stream, span / kTile * QueryLanes::floats(s) + 3 * s.tile() + kTile * kTile, tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task % (s.B * s.H) / s.H, h = task % s.H, hk = h / s.group();
    const int64_t first = (spans - 1 - task / (s.B * s.H)) * span, last = std::min(s.T, first + span);
    ScratchSlots::Lease lease(slots);
    float *kr = lease.take(s.tile()), *vr = lease.take(s.tile()), *rows = lease.take(s.tile()), *scores = lease.take(kTile * kTile);
    QueryLanes tiles[kSpan / kTile];
    FetchAhead ahead;
    for (int64_t j0 = 0; j0 < last; j0 += kTile) {
      load_tile(k.row(b, j0, hk), k.time, s.rows_from(j0), s.D, s.rows_from(j0), 1, kr);
      load_tile(v.row(b, j0, hk), v.time, s.rows_from(j0), s.D, s.rows_from(j0), 1, vr);
      const int64_t begin = std::max(first, j0), share = kTile / ceil_div(last - begin, kTile) + 1;
      for (int64_t i0 = begin; i0 < last; i0 += kTile) {
        QueryLanes& tile = tiles[(i0 - first) / kTile];
        if (j0 == 0) tile = load_queries(s, q.row(b, i0, h), q.time, a.scale, i0, rows, lease);
        const int64_t next = j0 + kTile + (i0 - begin) / kTile * share, count = std::min(share, last - next);
        ahead.clear();
        if (j0 == 0) ahead.add(q.row(b, i0 + kTile, h), q.time, std::min(kTile, last - i0 - kTile), s.D);
        ahead.add(k.row(b, next, hk), k.time, count, s.D);
        ahead.add(v.row(b, next, hk), v.time, count, s.D);
        if (next >= first) ahead.add(o.row(b, next, h), o.time, count, s.D);
        ahead.spread(2 * kSteps);
        attend(s, tile, j0, kr, vr, scores, ahead);
        if (i0 == j0) store_queries(s, tile, rows, o.row(b, i0, h), o.time, data<float>(a.lse) + (b * s.H + h) * s.T + i0);
      }
    }
  });
}

// ---- backward: keys in the lanes

// 64 keys: k scaled, v and their gradients, transposed [D][64]; k also as rows.
struct KeyLanes {
  float *kt, *vt, *dkt, *dvt, *kr;
};

// 64 queries as rows [64][D], their statistics, and their gradient, to which tiles of keys are added.
struct QueryRows {
  float *q, *dout, *base, *mean, *dq;
  int64_t i0, count;
};

// What a task works in: a span of keys, a tile of queries and their scores.
struct Workspace {
  KeyLanes keys[kSpan / kTile];
  QueryRows queries;
  float *scores, *dp;

  static int64_t floats(const Sizes& s) { return (5 * kSpan / kTile + 2) * s.tile() + 2 * kTile * kTile + 2 * kTile; }
  Workspace(const Sizes& s, ScratchSlots::Lease& lease)
      : queries{lease.take(s.tile()), lease.take(s.tile()), lease.take(kTile), lease.take(kTile), nullptr, 0, 0},
        scores(lease.take(kTile * kTile)), dp(lease.take(kTile * kTile)) {
    for (KeyLanes& k : keys) k = {lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile()), lease.take(s.tile())};
  }
};

template <class T>
void load_keys(const Sizes& s, const KeyLanes& to, const T* k, int64_t k_row, const T* v, int64_t v_row, int64_t count, float scale) {
  float* rows = to.kr;
  load_tile(v, v_row, count, s.D, padded(count), 1, rows);
  transpose(padded(count), s.width(), rows, s.width(), to.vt, kTile);
  load_tile(k, k_row, count, s.D, padded(count), scale, rows);
  transpose(padded(count), s.width(), rows, s.width(), to.kt, kTile);
  load_tile(k, k_row, count, s.D, count, 1, rows);
  std::fill_n(to.dkt, s.tile(), 0.0f);
  std::fill_n(to.dvt, s.tile(), 0.0f);
}

template <class T>
void store_keys(const Sizes& s, const KeyLanes& t, int64_t count, float scale, float* rows, T* dk, int64_t dk_row, T* dv, int64_t dv_row) {
  transpose(s.width(), padded(count), t.dkt, kTile, rows, s.width());
  store_tile(rows, count, s.D, scale, dk, dk_row);
  transpose(s.width(), padded(count), t.dvt, kTile, rows, s.width());
  store_tile(rows, count, s.D, 1, dv, dv_row);
}

// mean[i] = o_i . do_i, sixteen rows at a time.
template <class T>
void inner_products(const Sizes& s, const T* o, int64_t o_row, const QueryRows& q) {
  alignas(64) float blocks[kBlock * kBlock] = {};
  for (int64_t first = 0; first < q.count; first += kBlock) {
    for (int64_t r = first; r < std::min(q.count, first + kBlock); ++r) {
      const float* y = q.dout + r * s.width();
      store(reduce_blocks(s.D, 0.0f, [&](At at) HWY_ATTR { return at.load(o + r * o_row) * at.load(y); },
                          [](F32x16 x, F32x16 z) HWY_ATTR { return x + z; }), blocks + (r - first) * kBlock);
    }
    store(sums_of_blocks(blocks), q.mean + first);
  }
}

// scores -> p = exp(s - lse), dp -> ds = p (dp - delta).
void scores_to_gradients(const Scores& t, const float* lse, const float* delta, float* scores, float* dp) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const F32x16 base = splat(lse[r]), mean = splat(delta[r]);
    const int64_t lanes = t.diagonal ? near_side<kKeys>(t, r / kBlock * kBlock).count : t.lanes;
    for (int64_t lane = 0; lane < lanes; lane += kBlock) {
      float *s = scores + r * kTile + lane, *d = dp + r * kTile + lane;
      const F32x16 p = exp(load(s) - base);
      store(p, s);
      store(p * (load(d) - mean), d);
    }
  }
}

// The five products of a tile. Each gradient is a chain over its queries (or keys) in order.
void add_gradients(const Sizes& s, const QueryRows& q, const KeyLanes& k, int64_t j0, float* scores, float* dp, FetchAhead& ahead) {
  const int64_t keys = s.rows_from(j0);
  const Scores t{q.count, padded(keys), j0 == q.i0};
  product_of_rows<kKeys>(t, s, q.q, k.kt, scores, ahead);
  product_of_rows<kKeys>(t, s, q.dout, k.vt, dp, ahead);
  scores_to_gradients(t, q.base, q.mean, scores, dp);
  add_weighted_rows<kKeys>(t, s, q.dout, scores, k.dvt, ahead);
  add_weighted_rows<kKeys>(t, s, q.q, dp, k.dkt, ahead);
  const TileProduct dq{.m = q.count, .n = s.width(), .k = keys, .a = dp, .a_row = kTile, .a_step = 1, .b = k.kr, .b_row = s.width(),
                       .c = q.dq, .c_row = s.width(), .add = true, .meanwhile = &ahead};
  t.diagonal ? row_triangle_product(dq) : product(dq);
}

// How the backward is cut, by shape alone: a task owns a range of the keys of one key head, so that dk and dv are its own.
// Its share of dq is complete when the range is all keys; else the ranges are added up in order. Four at most, for they
// cost a copy of dq each.
struct Ranges {
  int64_t count, keys;

  explicit Ranges(const Sizes& s) {
    const int64_t spans = ceil_div(s.T, kSpan);
    keys = (s.B * s.Hkv >= 16 ? spans : ceil_div(spans, 4)) * kSpan;
    count = ceil_div(s.T, keys);
  }
};

// What a task has of dq: [group][T][D], begun in its first span, and complete at the diagonal if its range is all keys.
struct Share {
  float* dq;
  bool first_span, whole;
};

// One span of keys against all queries that see it.
template <class T>
void backward_span(const CausalAttentionBackwardArgs& a, const Sizes& s, int64_t b, int64_t hk, int64_t first, const Share& share, Workspace& w) {
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v), o = heads<T>(a.o), dout = heads<T>(a.dout);
  const Heads<T> dq = heads<T>(a.dq), dk = heads<T>(a.dk), dv = heads<T>(a.dv);
  const int64_t last = std::min(s.T, first + kSpan);
  QueryRows& rows = w.queries;
  const auto keys = [&](int64_t j0) -> const KeyLanes& { return w.keys[(j0 - first) / kTile]; };
  const int64_t h0 = hk * s.group(), h1 = h0 + s.group();
  FetchAhead ahead;
  // Meanwhile: the queries after these, the keys that they are the first to meet, and where results will go.
  const auto plan = [&](int64_t h, int64_t i0) {
    const int64_t next = i0 + kTile, count = std::min(kTile, s.T - next), tiles = ceil_div(std::min(last, next) - first, kTile);
    ahead.clear();
    for (const auto& from : {q, dout, o}) ahead.add(from.row(b, next, h), from.time, count, s.D);
    if (h == h0 && next < last)
      for (const auto& from : {k, v}) ahead.add(from.row(b, next, hk), from.time, count, s.D);
    if (share.whole && i0 < last) ahead.add(dq.row(b, i0, h), dq.time, s.rows_from(i0), s.D);
    if (h + 1 == h1 && next >= s.T)
      for (const auto& to : {dk, dv}) ahead.add(to.row(b, first, hk), to.time, last - first, s.D);
    ahead.spread(5 * kSteps * tiles);
  };
  for (int64_t h = h0; h < h1; ++h)
    for (int64_t i0 = first; i0 < s.T; i0 += kTile) {
      rows.i0 = i0, rows.count = s.rows_from(i0);
      rows.dq = share.dq + ((h - h0) * s.T + i0) * s.width();
      if (h == h0 && i0 < last) load_keys(s, keys(i0), k.row(b, i0, hk), k.time, v.row(b, i0, hk), v.time, s.rows_from(i0), a.scale);
      load_tile(q.row(b, i0, h), q.time, rows.count, s.D, rows.count, 1, rows.q);
      load_tile(dout.row(b, i0, h), dout.time, rows.count, s.D, rows.count, 1, rows.dout);
      inner_products(s, o.row(b, i0, h), o.time, rows);
      std::copy_n(data<float>(a.lse) + (b * s.H + h) * s.T + i0, rows.count, rows.base);
      if (share.first_span) std::fill_n(rows.dq, rows.count * s.width(), 0.0f);
      plan(h, i0);
      for (int64_t j0 = first; j0 < std::min(last, i0 + kTile); j0 += kTile) add_gradients(s, rows, keys(j0), j0, w.scores, w.dp, ahead);
      if (share.whole && i0 < last) store_tile(rows.dq, rows.count, s.D, a.scale, dq.row(b, i0, h), dq.time);
    }
  for (int64_t j0 = first; j0 < last; j0 += kTile)
    store_keys(s, keys(j0), s.rows_from(j0), a.scale, rows.q, dk.row(b, j0, hk), dk.time, dv.row(b, j0, hk), dv.time);
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
//           order, queries in order, keys of the span in order.
// Requires: what the forward does.
// Traffic:  k, v, dk and dv once; q, do and o once per span of 256 keys, dq once or, in ranges, once more per range.
template <class T>
void backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  const Sizes s(a.q, a.k);
  const Ranges ranges(s);
  const int64_t pairs = s.B * s.Hkv, tasks = ranges.count * pairs, share = s.group() * s.T * s.width();
  const bool whole = ranges.count == 1;
  ScratchSlots slots(stream, Workspace::floats(s) + (whole ? share : 0), tasks);
  const Scratch<float> shares(stream, whole ? 0 : tasks * share);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task % pairs / s.Hkv, hk = task % s.Hkv, first = task / pairs * ranges.keys;
    ScratchSlots::Lease lease(slots);
    Workspace work(s, lease);
    float* dq = whole ? lease.take(share) : shares.data() + task * share;
    for (int64_t j0 = first; j0 < std::min(s.T, first + ranges.keys); j0 += kSpan) backward_span<T>(a, s, b, hk, j0, {dq, j0 == first, whole}, work);
  });
  if (!whole) add_ranges<T>(stream, a, s, ranges, shares.data());
}

}  // namespace

void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  if (args.q.numel() == 0) return;
  dispatch<float, bf16>(args.q.dtype, [&]<class T>() { forward<T>(stream, args); });
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  if (args.q.numel() == 0) return;  // then k is empty too, as H is a multiple of Hkv
  dispatch<float, bf16>(args.q.dtype, [&]<class T>() { backward<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(causal_attention, CausalAttentionArgs)
WEFT_CPU_KERNEL(causal_attention_backward, CausalAttentionBackwardArgs)
#endif
