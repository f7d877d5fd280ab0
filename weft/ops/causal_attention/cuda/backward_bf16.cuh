// The backward pass in bf16 on tensor cores: a block keeps a tile of keys and values and iterates over the tiles of queries, with dK and
// dV in its registers. dQ is summed in f32 memory, one tile of keys after the other in a fixed order: blocks take turns at a tile of dQ,
// from the last tile of keys to the first. A block starts at its diagonal, so the blocks before it in that order are always further on,
// and no block waits for long.
#pragma once

#include "weft/ops/causal_attention/cuda/sequence.cuh"
#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

struct BackwardParams {
  Heads<const __nv_bfloat16> q, k, v, dout;
  Heads<__nv_bfloat16> dq, dk, dv;
  const float *lse, *delta;  // [B, H, T]
  float* sums;               // dQ in f32: per tile of queries, as the fragments of its threads
  unsigned *turns, *ticket;  // [B, H, tiles of queries]; one
  int* not_finite;  // [1 + sequences Hkv]: any, then each: set if an operand in a masked tile is not finite; simt.cuh then recomputes
  int T, H, Hkv, D, key_tiles, query_tiles;  // tiles of a sequence of T tokens; with documents, slots (sequence.cuh)
  float scale;
  bool aligned;
  int sum_tiles;  // tiles of a head in sums; see BackwardWork
  AttentionRule rule;
};

// A block's tile of keys j, and its steps over the tiles of queries that attend to it, for each head in its group.
template <class Tiles, bool kOptions>
struct BackwardWork {
  SequenceTile at;
  int hkv, j, n0, first, per_head, steps, heads;

  __device__ __forceinline__ static BackwardWork of(const BackwardParams& p, int work) {
    const SequenceTile at =
        tile_of_slot<kOptions, Tiles::kN>(p.rule, p.key_tiles - 1 - work % p.key_tiles, work / p.key_tiles / p.Hkv, p.T);
    const int j = at.tile, n0 = j * Tiles::kN, first = n0 / Tiles::kM, heads = p.H / p.Hkv;
    const int past =
        kOptions ? min((at.length + Tiles::kM - 1) / Tiles::kM, (n0 + Tiles::kN + p.rule.window - 2) / Tiles::kM + 1) : p.query_tiles;
    return {at, work / p.key_tiles % p.Hkv, j, n0, first, past - first, (past - first) * heads, heads};
  }
  __device__ __forceinline__ bool nothing() const { return kOptions && n0 >= at.length; }
  __device__ __forceinline__ int head(int step) const { return hkv * heads + step / per_head; }
  __device__ __forceinline__ int query_tile(int step) const { return first + step % per_head; }

  // The tiles of keys that add to dQ of a tile of queries, from the last to the first.
  __device__ __forceinline__ int last_key_tile(const BackwardParams& p, int m0) const {
    return min((m0 + Tiles::kM - 1) / Tiles::kN, (kOptions ? (at.length + Tiles::kN - 1) / Tiles::kN : p.key_tiles) - 1);
  }
  __device__ __forceinline__ int first_key_tile(const BackwardParams& p, int m0) const {
    return p.rule.template first_key_tile<kOptions, Tiles::kN>(m0);
  }
  __device__ __forceinline__ bool window_cuts(const BackwardParams& p, int m, int n) const {
    return p.rule.template window_cuts<kOptions>(m, n);
  }

  // The number of a tile of queries among the turns.
  __device__ __forceinline__ int64_t turn(const BackwardParams& p, int h, int i) const {
    const int slot = kOptions && p.rule.documents ? at.first / Tiles::kM + at.number : 0;
    return (int64_t(at.b) * p.H + h) * p.query_tiles + slot + i;
  }
  // The same among the sums, which only documents longer than a tile of keys have: such a one of L tokens has ceil(L / kM) tiles of
  // queries, no more than the floor(L / kM) + floor(L / kN) that separate its first tile from the next document's.
  __device__ __forceinline__ int64_t sum_tile(const BackwardParams& p, int h, int i) const {
    if constexpr (!kOptions) return turn(p, h, i);
    return (int64_t(at.b) * p.H + h) * p.sum_tiles + at.first / Tiles::kM + at.first / Tiles::kN + i;
  }
  __device__ __forceinline__ void report_not_finite(const BackwardParams& p) const {
    p.not_finite[0] = p.not_finite[1 + at.number * p.Hkv + hkv] = 1;
  }
};

__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(x) : "l"(p) : "memory");
  return x;
}
__device__ __forceinline__ void store_release(unsigned* p, unsigned x) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(p), "r"(x) : "memory");
}

// Division of a block's three kinds of tiles among its warps.
template <class Tiles>
struct BackwardWarps {
  // Scores: two warps along the queries, the others along the keys.
  static constexpr int kScoreWarps = Tiles::kWarps / 2, kScoreKeys = Tiles::kN / kScoreWarps;
  // dk and dv: warps along the keys (32 each), the others along D.
  static constexpr int kKeyWarps = Tiles::kN / 32, kKeyColumns = Tiles::kD / (Tiles::kWarps / kKeyWarps);
  // dq: kM / 32 warps along the queries (32 each), the others along D.
  static constexpr int kQueryWarps = Tiles::kWarps / (Tiles::kM / 32), kQueryColumns = Tiles::kD / kQueryWarps;

  using Scores = RegisterTile<Tiles::kScoreRows, kScoreKeys>;
  using KeyGradient = RegisterTile<32, kKeyColumns>;
  using QueryGradient = RegisterTile<32, kQueryColumns>;

  int score_row, score_column, key_row, key_column, query_row, query_column;  // of this warp's part
  __device__ __forceinline__ explicit BackwardWarps(int warp)
      : score_row(warp / kScoreWarps * Tiles::kScoreRows),
        score_column(warp % kScoreWarps * kScoreKeys),
        key_row(warp % kKeyWarps * 32),
        key_column(warp / kKeyWarps * kKeyColumns),
        query_row(warp / kQueryWarps * 32),
        query_column(warp % kQueryWarps * kQueryColumns) {}
};

// s += q k^T and dp += do v^T, side by side: rows from `row` on, keys from `column` on.
template <class Scores, class QTile, class KTile>
__device__ __forceinline__ void add_scores(Scores& s, Scores& dp, const QTile& q, const QTile& dout, const KTile& k, const KTile& v,
                                           int row, int column) {
#pragma unroll
  for (int d = 0; d < QTile::kColumns; d += 16) {
    FragmentA a[Scores::kM], da[Scores::kM];
#pragma unroll
    for (int m = 0; m < Scores::kM; ++m) a[m] = q.a(row + m * 16, d), da[m] = dout.a(row + m * 16, d);
#pragma unroll
    for (int n = 0; n < Scores::kN; n += 2) {
      FragmentB keys[2], values[2];
      k.b_transposed(keys, column + n * 8, d);
      v.b_transposed(values, column + n * 8, d);
#pragma unroll
      for (int m = 0; m < Scores::kM; ++m)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          multiply_add(s.at[m][n + e], a[m], keys[e]);
          multiply_add(dp.at[m][n + e], da[m], values[e]);
        }
    }
  }
}

// P = exp(scale s - lse) and dS = P (dp - delta), zero above the diagonal, to shared memory in bf16. rows: where lse and
// delta of the sequence's `length` queries begin; m0, n0: the query and the key of the tile's first element.
template <bool kOptions, class Scores, class PTile>
__device__ __forceinline__ void put_p_and_ds(const BackwardParams& p, const Scores& s, const Scores& dp, const PTile& p_tile,
                                             const PTile& ds_tile, int64_t rows, int length, int m0, int n0, int row0, int column0,
                                             int lane) {
  const float to_log2 = p.scale * kLog2e;
#pragma unroll
  for (int m = 0; m < Scores::kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + s.row(m, 2 * half, lane), query = m0 + row;
      const float lse = query < length ? p.lse[rows + query] * kLog2e : __builtin_huge_valf();
      const float delta = query < length ? p.delta[rows + query] : 0.0f;
#pragma unroll
      for (int n = 0; n < Scores::kN; ++n) {
        float pr[2], ds[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = n0 + column0 + s.column(n, e, lane);
          const bool masked = key > query || p.rule.template window_cuts<kOptions>(query, key);
          const float score = s.at[m][n].x[2 * half + e], ratio = p.rule.template capped<kOptions>() ? p.rule.capped_ratio(score) : 0.0f;
          const float exponent =
              p.rule.template capped<kOptions>() ? fmaf(p.rule.soft_cap * ratio, kLog2e, -lse) : fmaf(score, to_log2, -lse);
          pr[e] = masked ? 0.0f : exp2_approx(exponent);
          ds[e] = masked ? 0.0f : pr[e] * (dp.at[m][n].x[2 * half + e] - delta);
          if (p.rule.template capped<kOptions>() && !masked) ds[e] *= fmaf(-ratio, ratio, 1.0f);
        }
        p_tile.put(row, column0 + s.column(n, 0, lane), pack(pr[0], pr[1]));
        ds_tile.put(row, column0 + s.column(n, 0, lane), pack(ds[0], ds[1]));
      }
    }
}

// dv += P^T do and dk += dS^T q, side by side: keys from `row` on, columns from `column` on.
template <class Gradient, class PTile, class QTile>
__device__ __forceinline__ void add_key_gradients(Gradient& dk, Gradient& dv, const PTile& p_tile, const PTile& ds_tile, const QTile& q,
                                                  const QTile& dout, int row, int column) {
#pragma unroll
  for (int m = 0; m < QTile::kRows; m += 16) {
    FragmentA pa[Gradient::kM], da[Gradient::kM];
#pragma unroll
    for (int n = 0; n < Gradient::kM; ++n) pa[n] = p_tile.a_transposed(m, row + n * 16), da[n] = ds_tile.a_transposed(m, row + n * 16);
#pragma unroll
    for (int d = 0; d < Gradient::kN; d += 2) {
      FragmentB values[2], queries[2];
      dout.b(values, m, column + d * 8);
      q.b(queries, m, column + d * 8);
#pragma unroll
      for (int n = 0; n < Gradient::kM; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          multiply_add(dv.at[n][d + e], pa[n], values[e]);
          multiply_add(dk.at[n][d + e], da[n], queries[e]);
        }
    }
  }
}

// Equation: p = exp(scale q k^T - lse), ds = p (do v^T - delta); dv = p^T do, dk = scale ds^T q, dq = scale ds k.
// Layout:   q, do, dq [B, T, H, D], k, v, dk, dv [B, T, Hkv, D] with any strides over B, T, H; lse, delta [B, H, T].
// Order:    a block per (tile of keys, key head, sequence), taken from a ticket: the last tile of keys first. Heads of a
//           group in order, tiles of queries ascending; dq by turns, tiles of keys descending. P and dS are rounded to
//           bf16 for their matmuls, sums are f32.
// Requires: D <= kD, kWarps warps; turns and ticket zero. Unaligned rows are loaded element by element.
// Traffic:  k, v once; q, do once per tile of keys (mostly from L2); dq's sums read and written once per tile of keys (L2).
template <class Tiles, bool kOptions>
__global__ void __launch_bounds__(Tiles::kWarps * 32, 1) causal_backward(const BackwardParams p) {
  constexpr int kD = Tiles::kD, kM = Tiles::kM, kN = Tiles::kN, kStages = Tiles::kStages, kThreads = Tiles::kWarps * 32;
  using Warps = BackwardWarps<Tiles>;
  using QTile = SharedTile<kM, kD>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ unsigned ticket;
  const SharedTile<kN, kD> k{shared_address(memory)}, v{k.base + k.kBytes};
  const uint32_t stages = v.base + v.kBytes;
  const auto q_at = [&](int stage) { return QTile{stages + uint32_t(stage) * 2 * QTile::kBytes}; };
  const auto do_at = [&](int stage) { return QTile{stages + uint32_t(stage) * 2 * QTile::kBytes + QTile::kBytes}; };
  const SharedTile<kM, Tiles::kPitch> p_tile{stages + kStages * 2 * QTile::kBytes}, ds_tile{p_tile.base + p_tile.kBytes};

  if (threadIdx.x == 0) ticket = atomicAdd(p.ticket, 1);
  __syncthreads();
  const auto work = BackwardWork<Tiles, kOptions>::of(p, int(ticket));
  if (work.nothing()) return;
  const int j = work.j, hkv = work.hkv, b = work.at.b, n0 = work.n0, steps = work.steps, length = work.at.length, token = work.at.first;
  const int lane = int(threadIdx.x) % 32;
  const Warps warp(int(threadIdx.x) / 32);

  const auto load_queries = [&](int step, int stage) {
    const int h = work.head(step), m0 = work.query_tile(step) * kM;
    q_at(stage).template load<kThreads>(p.q.row(b, token + m0, h), p.q.time, length - m0, p.D, p.aligned, int(threadIdx.x));
    do_at(stage).template load<kThreads>(p.dout.row(b, token + m0, h), p.dout.time, length - m0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };
  k.template load<kThreads>(p.k.row(b, token + n0, hkv), p.k.time, length - n0, p.D, p.aligned, int(threadIdx.x));
  v.template load<kThreads>(p.v.row(b, token + n0, hkv), p.v.time, length - n0, p.D, p.aligned, int(threadIdx.x));
  load_queries(0, 0);

  typename Warps::KeyGradient dk = {}, dv = {};
  unsigned* passed = nullptr;  // the turn of the last step: it ends once all warps have written their sums
  for (int step = 0; step < steps; ++step) {
    const int i = work.query_tile(step), h = work.head(step), m0 = i * kM;
    const int64_t head = int64_t(b) * p.H + h, tile = work.turn(p, h, i);
    const QTile q = q_at(step % kStages), dout = do_at(step % kStages);
    if constexpr (kStages == 1)
      if (step > 0) {
        __syncthreads();  // all warps are done with the last step's tiles
        load_queries(step, 0);
      }
    copies_wait<0>();
    __syncthreads();  // this step's tiles have arrived; all warps are done with the last step's
    if (passed && threadIdx.x == 0) store_release(passed, load_acquire(passed) + 1);
    if (kStages == 2 && step + 1 < steps) load_queries(step + 1, (step + 1) % kStages);
    if ((n0 + kN - 1 > m0 || work.window_cuts(p, min(m0 + kM, length) - 1, n0)) &&
        (k.template some_not_finite<kThreads>() || q.template some_not_finite<kThreads>() || dout.template some_not_finite<kThreads>()))
      work.report_not_finite(p);

    typename Warps::Scores s = {}, dp = {};
    add_scores(s, dp, q, dout, k, v, warp.score_row, warp.score_column);
    put_p_and_ds<kOptions>(p, s, dp, p_tile, ds_tile, head * p.T + token, length, m0, n0, warp.score_row, warp.score_column, lane);
    const int last = work.last_key_tile(p, m0);  // it adds to this tile of dq first
    if (threadIdx.x == 0)
      while (load_acquire(p.turns + tile) != unsigned(last - j)) __nanosleep(20);
    __syncthreads();  // P and dS have been written; it is this block's turn

    typename Warps::QueryGradient dq = {};
    float4* sums =
        reinterpret_cast<float4*>(p.sums) + (work.sum_tile(p, h, i) * Tiles::kWarps + int(threadIdx.x) / 32) * (dq.kM * dq.kN) * 32 + lane;
    if (j < last) dq.load_fragments(sums);
    add_key_gradients(dk, dv, p_tile, ds_tile, q, dout, warp.key_row, warp.key_column);
    multiply_add<kN>(dq, ds_tile, warp.query_row, k, warp.query_column);
    if (j > work.first_key_tile(p, m0)) {
      dq.store_fragments(sums);
      __threadfence();
    } else {
      dq.store(work.at.from_first(p.dq), b, h, m0 + warp.query_row, warp.query_column, length, p.D, p.scale, lane);
    }
    passed = p.turns + tile;
  }
  __syncthreads();
  if (threadIdx.x == 0) store_release(passed, load_acquire(passed) + 1);
  dk.store(work.at.from_first(p.dk), b, hkv, n0 + warp.key_row, warp.key_column, length, p.D, p.scale, lane);
  dv.store(work.at.from_first(p.dv), b, hkv, n0 + warp.key_row, warp.key_column, length, p.D, 1.0f, lane);
}

}  // namespace weft::cuda
