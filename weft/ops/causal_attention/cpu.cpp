// All three kernels hold one side of the scores in the lanes of a tile: 64 queries (forward, dq) or 64 keys (dk, dv),
// transposed once per task. The other side passes by in rows that are only ever broadcast, so it needs no transposing,
// and softmax runs down the lanes with no folding of vectors. A block on the diagonal is walked sixteen rows at a time:
// one 16 by 16 triangle, and the lanes on its near side.
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/tile/cpu/heads.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/causal_attention/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

namespace {

constexpr int64_t kTile = 64;  // lanes of a tile, and rows that pass by at a time

struct Sizes {
  int64_t B, T, H, Hkv, D;

  Sizes(const View& q, const View& k) : B(q.shape[0]), T(q.shape[1]), H(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]) {}
  int64_t width() const { return ceil_div(D, kBlock) * kBlock; }  // of a row in a tile
  int64_t tile() const { return kTile * width(); }
  int64_t blocks() const { return ceil_div(T, kTile); }
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
void product_of_rows(const Scores& t, const Sizes& s, const float* rows, const float* lanes, float* c) {
  const auto over = [&](int64_t row, int64_t count, LaneRange range) {
    product({.m = count, .n = range.count, .k = s.D, .a = rows + row * s.width(), .a_row = s.width(), .a_step = 1, .b = lanes + range.first,
             .b_row = kTile, .c = c + row * kTile + range.first, .c_row = kTile, .add = false});
  };
  if (!t.diagonal) return over(0, t.rows, {0, t.lanes});
  for (int64_t row = 0; row < t.rows; row += kBlock) over(row, std::min<int64_t>(kBlock, t.rows - row), near_side<kSide>(t, row));
}

// sums[D][64] += rows[.][D]^T times weights[rows][64].
template <Lanes kSide>
void add_weighted_rows(const Scores& t, const Sizes& s, const float* rows, const float* weights, float* sums) {
  const auto over = [&](int64_t row, int64_t count, LaneRange range) {
    return TileProduct{.m = s.D, .n = range.count, .k = count, .a = rows + row * s.width(), .a_row = 1, .a_step = s.width(),
                       .b = weights + row * kTile + range.first, .b_row = kTile, .c = sums + range.first, .c_row = kTile, .add = true};
  };
  if (!t.diagonal) return product(over(0, t.rows, {0, t.lanes}));
  for (int64_t row = 0; row < t.rows; row += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, t.rows - row);
    triangle_product<kSide>(over(row, count, {row, kBlock}));
    product(over(row, count, kSide == kQueries ? LaneRange{row + kBlock, t.lanes - row - kBlock} : LaneRange{0, row}));
  }
}

// Sixteen queries: their scores become p relative to the new running maximum m; l is the running sum.
void online_softmax(const Scores& t, int64_t lane, float* scores, float* m, float* l, float* rescale) {
  const F32x16 none = splat(-HUGE_VALF), number = lane_numbers();
  const int64_t rows = t.diagonal ? std::min(t.rows, lane + kBlock) : t.rows, full = t.diagonal ? lane : t.rows;
  const auto seen = [&](int64_t r) HWY_ATTR {
    const F32x16 s = load(scores + r * kTile + lane);
    return r < full ? s : select(number < splat(float(r - full)), none, s);
  };
  const F32x16 before = load(m + lane);
  F32x16 most = before;
  for (int64_t r = 0; r < rows; ++r) {
    const F32x16 s = seen(r);
    most = select(most < s, s, most);  // a NaN is not kept here, but in its p
  }
  const F32x16 base = select(none < most, most, zero());  // all scores -inf so far: p = 0, not NaN
  const F32x16 factor = exp(before - base);
  F32x16 sum = load(l + lane) * factor;
  for (int64_t r = 0; r < rows; ++r) {
    const F32x16 p = exp(seen(r) - base);
    store(p, scores + r * kTile + lane);
    sum = sum + p;
  }
  store(most, m + lane);
  store(sum, l + lane);
  store(factor, rescale + lane);
}

// Rows of sums[D][64] times one factor a lane.
void scale_lanes(const Sizes& s, int64_t lanes, const float* factor, float* sums) {
  for (int64_t lane = 0; lane < lanes; lane += kBlock) {
    const F32x16 f = load(factor + lane);
    for (int64_t d = 0; d < s.D; ++d) store(load(sums + d * kTile + lane) * f, sums + d * kTile + lane);
  }
}

// Equation: o_i = sum over j <= i of p_ij v_j, p_ij = exp(s_ij - lse_i), s_ij = scale q_i . k_j, lse_i = log sum exp s_ij.
// Layout:   q, o [B, T, H, D] and k, v [B, T, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    one task per (b, h, 64 queries), the longest of a head first; keys in order, in blocks of 64 with a running maximum.
// Requires: unit stride over D, D <= 256 (the contract's). A NaN reaches only the queries that see it.
// Traffic:  q once, o once; k and v once per block of queries, mostly from cache.
template <class T>
void forward(Stream& stream, const CausalAttentionArgs& a) {
  const Sizes s(a.q, a.k);
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v);
  const Heads<T> o = heads<T>(a.o);
  const int64_t tasks = s.B * s.H * s.blocks();
  ScratchSlots slots(stream, 4 * s.tile() + kTile * kTile + 3 * kTile, tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task / s.blocks() / s.H, h = task / s.blocks() % s.H, hk = h / (s.H / s.Hkv);
    const int64_t i0 = (s.blocks() - 1 - task % s.blocks()) * kTile, queries = s.rows_from(i0);
    ScratchSlots::Lease lease(slots);
    float *qt = lease.take(s.tile()), *ot = lease.take(s.tile()), *kr = lease.take(s.tile()), *vr = lease.take(s.tile());
    float *scores = lease.take(kTile * kTile), *m = lease.take(kTile), *l = lease.take(kTile), *rescale = lease.take(kTile);
    load_tile(q.row(b, i0, h), q.time, queries, s.D, padded(queries), a.scale, kr);
    transpose(padded(queries), s.width(), kr, s.width(), qt, kTile);
    std::fill_n(ot, s.tile(), 0.0f);
    std::fill_n(m, kTile, -HUGE_VALF);
    std::fill_n(l, kTile, 0.0f);
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      const Scores t{s.rows_from(j0), padded(queries), j0 == i0};
      load_tile(k.row(b, j0, hk), k.time, t.rows, s.D, t.rows, 1, kr);
      load_tile(v.row(b, j0, hk), v.time, t.rows, s.D, t.rows, 1, vr);
      product_of_rows<kQueries>(t, s, kr, qt, scores);
      for (int64_t lane = 0; lane < t.lanes; lane += kBlock) online_softmax(t, lane, scores, m, l, rescale);
      scale_lanes(s, t.lanes, rescale, ot);
      add_weighted_rows<kQueries>(t, s, vr, scores, ot);
    }
    for (int64_t lane = 0; lane < padded(queries); lane += kBlock) store(splat(1.0f) / load(l + lane), rescale + lane);
    scale_lanes(s, padded(queries), rescale, ot);
    transpose(s.width(), padded(queries), ot, kTile, kr, s.width());
    store_tile(kr, queries, s.D, 1, o.row(b, i0, h), o.time);
    float* lse = data<float>(a.lse) + (b * s.H + h) * s.T + i0;
    for_each_block(queries, [&](At at) HWY_ATTR { at.store(at.load(m) + log(at.load(l)), lse); });
  });
}

// delta [B, H, T]: the inner products of o and do, of every query.
template <class T>
void inner_products(Stream& stream, const CausalAttentionBackwardArgs& a, const Sizes& s, float* delta) {
  const Heads<const T> o = heads<T>(a.o), dout = heads<T>(a.dout);
  for_each_row_group(stream, s.B * s.H * s.T, s.D, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const int64_t b = r / (s.H * s.T), h = r / s.T % s.H, t = r % s.T;
      const T *x = o.row(b, t, h), *y = dout.row(b, t, h);
      delta[r] = row_sum(s.D, [&](At at) HWY_ATTR { return at.load(x) * at.load(y); });
    }
  });
}

// scores -> p = exp(s - lse), dp -> ds = p (dp - delta). The statistics belong to the queries: lanes or rows.
template <Lanes kSide>
void scores_to_gradients(const Scores& t, const float* lse, const float* delta, float* scores, float* dp) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const LaneRange range = t.diagonal ? near_side<kSide>(t, r / kBlock * kBlock) : LaneRange{0, t.lanes};
    for (int64_t lane = range.first; lane < range.first + range.count; lane += kBlock) {
      const F32x16 base = kSide == kQueries ? load(lse + lane) : splat(lse[r]), mean = kSide == kQueries ? load(delta + lane) : splat(delta[r]);
      float *s = scores + r * kTile + lane, *d = dp + r * kTile + lane;
      const F32x16 p = exp(load(s) - base);
      store(p, s);
      store(p * (load(d) - mean), d);
    }
  }
}

// Equation: dq_i = scale sum over j <= i of p_ij (do_i . v_j - delta_i) k_j.
// Layout:   as the forward; delta [B, H, T].
// Order:    one task per (b, h, 64 queries), the longest of a head first; keys in order.
// Requires: what the forward does.
// Traffic:  q, do and dq once; k and v once per block of queries, mostly from cache.
template <class T>
void backward_queries(Stream& stream, const CausalAttentionBackwardArgs& a, const Sizes& s, const float* delta) {
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v), dout = heads<T>(a.dout);
  const Heads<T> dq = heads<T>(a.dq);
  const int64_t tasks = s.B * s.H * s.blocks();
  ScratchSlots slots(stream, 5 * s.tile() + 2 * kTile * kTile + 2 * kTile, tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task / s.blocks() / s.H, h = task / s.blocks() % s.H, hk = h / (s.H / s.Hkv);
    const int64_t i0 = (s.blocks() - 1 - task % s.blocks()) * kTile, queries = s.rows_from(i0), statistics = (b * s.H + h) * s.T + i0;
    ScratchSlots::Lease lease(slots);
    float *qt = lease.take(s.tile()), *dot = lease.take(s.tile()), *dqt = lease.take(s.tile());
    float *kr = lease.take(s.tile()), *vr = lease.take(s.tile());
    float *scores = lease.take(kTile * kTile), *dp = lease.take(kTile * kTile), *base = lease.take(kTile), *mean = lease.take(kTile);
    load_tile(q.row(b, i0, h), q.time, queries, s.D, padded(queries), a.scale, kr);
    load_tile(dout.row(b, i0, h), dout.time, queries, s.D, padded(queries), 1, vr);
    transpose(padded(queries), s.width(), kr, s.width(), qt, kTile);
    transpose(padded(queries), s.width(), vr, s.width(), dot, kTile);
    for_each_block(queries, [&](At at) HWY_ATTR {  // zeros after the last query
      store(at.load(data<float>(a.lse) + statistics), base + at.i);
      store(at.load(delta + statistics), mean + at.i);
    });
    std::fill_n(dqt, s.tile(), 0.0f);
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      const Scores t{s.rows_from(j0), padded(queries), j0 == i0};
      load_tile(k.row(b, j0, hk), k.time, t.rows, s.D, t.rows, 1, kr);
      load_tile(v.row(b, j0, hk), v.time, t.rows, s.D, t.rows, 1, vr);
      product_of_rows<kQueries>(t, s, kr, qt, scores);
      product_of_rows<kQueries>(t, s, vr, dot, dp);
      scores_to_gradients<kQueries>(t, base, mean, scores, dp);
      add_weighted_rows<kQueries>(t, s, kr, dp, dqt);
    }
    transpose(s.width(), padded(queries), dqt, kTile, kr, s.width());
    store_tile(kr, queries, s.D, a.scale, dq.row(b, i0, h), dq.time);
  });
}

// Equation: dk_j = scale sum over i >= j of p_ij (do_i . v_j - delta_i) q_i; dv_j = sum over i >= j of p_ij do_i.
// Layout:   as the forward; delta [B, H, T].
// Order:    one task per (b, key head, 64 keys), the longest of a head first; the heads of its group in order, queries in order.
// Requires: what the forward does.
// Traffic:  k, v, dk and dv once; q and do once per block of keys, mostly from cache.
template <class T>
void backward_keys(Stream& stream, const CausalAttentionBackwardArgs& a, const Sizes& s, const float* delta) {
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k), v = heads<T>(a.v), dout = heads<T>(a.dout);
  const Heads<T> dk = heads<T>(a.dk), dv = heads<T>(a.dv);
  const int64_t tasks = s.B * s.Hkv * s.blocks(), group = s.H / s.Hkv;
  ScratchSlots slots(stream, 6 * s.tile() + 2 * kTile * kTile, tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task / s.blocks() / s.Hkv, hk = task / s.blocks() % s.Hkv;
    const int64_t j0 = task % s.blocks() * kTile, keys = s.rows_from(j0);
    ScratchSlots::Lease lease(slots);
    float *kt = lease.take(s.tile()), *vt = lease.take(s.tile()), *dkt = lease.take(s.tile()), *dvt = lease.take(s.tile());
    float *qr = lease.take(s.tile()), *dor = lease.take(s.tile()), *scores = lease.take(kTile * kTile), *dp = lease.take(kTile * kTile);
    load_tile(k.row(b, j0, hk), k.time, keys, s.D, padded(keys), a.scale, qr);
    load_tile(v.row(b, j0, hk), v.time, keys, s.D, padded(keys), 1, dor);
    transpose(padded(keys), s.width(), qr, s.width(), kt, kTile);
    transpose(padded(keys), s.width(), dor, s.width(), vt, kTile);
    std::fill_n(dkt, s.tile(), 0.0f);
    std::fill_n(dvt, s.tile(), 0.0f);
    for (int64_t h = hk * group; h < (hk + 1) * group; ++h)
      for (int64_t i0 = j0; i0 < s.T; i0 += kTile) {
        const Scores t{s.rows_from(i0), padded(keys), i0 == j0};
        const int64_t statistics = (b * s.H + h) * s.T + i0;
        load_tile(q.row(b, i0, h), q.time, t.rows, s.D, t.rows, 1, qr);
        load_tile(dout.row(b, i0, h), dout.time, t.rows, s.D, t.rows, 1, dor);
        product_of_rows<kKeys>(t, s, qr, kt, scores);
        product_of_rows<kKeys>(t, s, dor, vt, dp);
        scores_to_gradients<kKeys>(t, data<float>(a.lse) + statistics, delta + statistics, scores, dp);
        add_weighted_rows<kKeys>(t, s, dor, scores, dvt);
        add_weighted_rows<kKeys>(t, s, qr, dp, dkt);
      }
    transpose(s.width(), padded(keys), dkt, kTile, qr, s.width());
    store_tile(qr, keys, s.D, a.scale, dk.row(b, j0, hk), dk.time);
    transpose(s.width(), padded(keys), dvt, kTile, qr, s.width());
    store_tile(qr, keys, s.D, 1, dv.row(b, j0, hk), dv.time);
  });
}

}  // namespace

void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  if (args.q.numel() == 0) return;
  dispatch<float, bf16>(args.q.dtype, [&]<class T>() { forward<T>(stream, args); });
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  if (args.q.numel() == 0) return;  // then k is empty too, as H is a multiple of Hkv
  const Sizes s(args.q, args.k);
  const Scratch<float> delta(stream, s.B * s.H * s.T);
  dispatch<float, bf16>(args.q.dtype, [&]<class T>() {
    inner_products<T>(stream, args, s, delta.data());
    backward_queries<T>(stream, args, s, delta.data());
    backward_keys<T>(stream, args, s, delta.data());
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(causal_attention, CausalAttentionArgs)
WEFT_CPU_KERNEL(causal_attention_backward, CausalAttentionBackwardArgs)
#endif
