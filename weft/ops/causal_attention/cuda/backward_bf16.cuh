// The backward pass in bf16 on tensor cores: a block keeps a tile of keys and values and iterates over the tiles of queries, with dK and
// dV in its registers. dQ is summed in f32 memory, one tile of keys after the other in a fixed order: blocks take turns at a tile of dQ,
// from the last tile of keys to the first. A block starts at its diagonal, so the blocks before it in that order are always further on,
// and no block waits for long.
#pragma once

#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

struct BackwardParams {
  Heads<const __nv_bfloat16> q, k, v, dout;
  Heads<__nv_bfloat16> dq, dk, dv;
  const float *lse, *delta;  // [B, H, T]
  float* sums;               // dQ in f32: per tile of queries, as the fragments of its threads
  unsigned *turns, *ticket;  // [B, H, tiles of queries]; one
  int* not_finite;  // [1 + B Hkv]: any, then each: set if an operand in a tile on the diagonal is not finite; simt.cuh then recomputes
  int T, H, Hkv, D, key_tiles, query_tiles;
  float scale;
  bool aligned;
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

// P = exp(scale s - lse) and dS = P (dp - delta), zero above the diagonal, to shared memory in bf16. rows: where [T] of lse and
// delta begin; m0, n0: the query and the key of the tile's first element.
template <class Scores, class PTile>
__device__ __forceinline__ void put_p_and_ds(const BackwardParams& p, const Scores& s, const Scores& dp, const PTile& p_tile,
                                             const PTile& ds_tile, int64_t rows, int m0, int n0, int row0, int column0, int lane) {
  const float to_log2 = p.scale * kLog2e;
#pragma unroll
  for (int m = 0; m < Scores::kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + s.row(m, 2 * half, lane), query = m0 + row;
      const float lse = query < p.T ? p.lse[rows + query] * kLog2e : __builtin_huge_valf();
      const float delta = query < p.T ? p.delta[rows + query] : 0.0f;
#pragma unroll
      for (int n = 0; n < Scores::kN; ++n) {
        float pr[2], ds[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const bool above = n0 + column0 + s.column(n, e, lane) > query;
          pr[e] = above ? 0.0f : exp2_approx(fmaf(s.at[m][n].x[2 * half + e], to_log2, -lse));
          ds[e] = above ? 0.0f : pr[e] * (dp.at[m][n].x[2 * half + e] - delta);
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
template <class Tiles>
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
  const int work = int(ticket), j = p.key_tiles - 1 - work % p.key_tiles, hkv = work / p.key_tiles % p.Hkv, b = work / p.key_tiles / p.Hkv;
  const int n0 = j * kN, first = n0 / kM, group = p.H / p.Hkv, per_head = p.query_tiles - first, steps = per_head * group;
  const int lane = int(threadIdx.x) % 32;
  const Warps warp(int(threadIdx.x) / 32);

  const auto load_queries = [&](int step, int stage) {
    const int h = hkv * group + step / per_head, m0 = (first + step % per_head) * kM;
    q_at(stage).template load<kThreads>(p.q.row(b, m0, h), p.q.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
    do_at(stage).template load<kThreads>(p.dout.row(b, m0, h), p.dout.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };
  k.template load<kThreads>(p.k.row(b, n0, hkv), p.k.time, p.T - n0, p.D, p.aligned, int(threadIdx.x));
  v.template load<kThreads>(p.v.row(b, n0, hkv), p.v.time, p.T - n0, p.D, p.aligned, int(threadIdx.x));
  load_queries(0, 0);

  typename Warps::KeyGradient dk = {}, dv = {};
  unsigned* passed = nullptr;  // the turn of the last step: it ends once all warps have written their sums
  for (int step = 0; step < steps; ++step) {
    const int i = first + step % per_head, h = hkv * group + step / per_head, m0 = i * kM;
    const int64_t head = int64_t(b) * p.H + h, tile = head * p.query_tiles + i;
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
    if (n0 + kN - 1 > m0 &&
        (k.template some_not_finite<kThreads>() || q.template some_not_finite<kThreads>() || dout.template some_not_finite<kThreads>()))
      p.not_finite[0] = p.not_finite[1 + b * p.Hkv + hkv] = 1;

    typename Warps::Scores s = {}, dp = {};
    add_scores(s, dp, q, dout, k, v, warp.score_row, warp.score_column);
    put_p_and_ds(p, s, dp, p_tile, ds_tile, head * p.T, m0, n0, warp.score_row, warp.score_column, lane);
    const int last = min((m0 + kM - 1) / kN, p.key_tiles - 1);  // the tile of keys that adds to this tile of dq first
    if (threadIdx.x == 0)
      while (load_acquire(p.turns + tile) != unsigned(last - j)) __nanosleep(20);
    __syncthreads();  // P and dS have been written; it is this block's turn

    typename Warps::QueryGradient dq = {};
    float4* sums = reinterpret_cast<float4*>(p.sums) + (tile * Tiles::kWarps + int(threadIdx.x) / 32) * (dq.kM * dq.kN) * 32 + lane;
    if (j < last) dq.load_fragments(sums);
    add_key_gradients(dk, dv, p_tile, ds_tile, q, dout, warp.key_row, warp.key_column);
    multiply_add<kN>(dq, ds_tile, warp.query_row, k, warp.query_column);
    if (j > 0) {
      dq.store_fragments(sums);
      __threadfence();
    } else {
      dq.store(p.dq, b, h, m0 + warp.query_row, warp.query_column, p.T, p.D, p.scale, lane);
    }
    passed = p.turns + tile;
  }
  __syncthreads();
  if (threadIdx.x == 0) store_release(passed, load_acquire(passed) + 1);
  dk.store(p.dk, b, hkv, n0 + warp.key_row, warp.key_column, p.T, p.D, p.scale, lane);
  dv.store(p.dv, b, hkv, n0 + warp.key_row, warp.key_column, p.T, p.D, 1.0f, lane);
}

}  // namespace weft::cuda
