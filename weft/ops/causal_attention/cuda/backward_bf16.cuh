// The backward pass in bf16 on tensor cores: a block keeps a tile of keys and values and walks over the tiles of queries,
// so that dk and dv grow in its registers. dq grows in f32 memory, one tile of keys after the other in a fixed order: a
// block adds its part to a tile of dq when its turn has come. Turns go from the last tile of keys to the first. A block
// begins at its diagonal, so the blocks before it in that order are always further on, and nobody waits for long.
#pragma once

#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/heads.cuh"
#include "weft/tile/cuda/math.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

struct BackwardParams {
  Heads<const __nv_bfloat16> q, k, v, dout;
  Heads<__nv_bfloat16> dq, dk, dv;
  const float *lse, *delta;  // [B, H, T]
  float* sums;               // dq in f32: per tile of queries, as its threads hold it
  unsigned *turns, *ticket;  // [B, H, tiles of queries]; one
  int* not_finite;  // [1 + B Hkv]: any, then each: set where an operand beside the diagonal is an infinity or NaN (simt.cuh does it again)
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

// Equation: p = exp(scale q k^T - lse), ds = p (do v^T - delta); dv = p^T do, dk = scale ds^T q, dq = scale ds k.
// Layout:   q, do, dq [B, T, H, D], k, v, dk, dv [B, T, Hkv, D] with any strides over B, T, H; lse, delta [B, H, T].
// Order:    a block per (tile of keys, key head, sequence), taken from a ticket: the last tile of keys first. Heads of a
//           group in order, tiles of queries ascending; dq by turns, tiles of keys descending. p and ds are rounded to
//           bf16 for their products, sums are f32.
// Requires: D <= kD, kWarps warps; turns and ticket zero. Unaligned rows are loaded element by element.
// Traffic:  k, v once; q, do once per tile of keys (mostly from L2); dq's sums read and written once per tile of keys (L2).
template <class Tiles>
__global__ void __launch_bounds__(Tiles::kWarps * 32, 1) causal_backward(const BackwardParams p) {
  constexpr int kD = Tiles::kD, kM = Tiles::kM, kN = Tiles::kN, kStages = Tiles::kStages, kThreads = Tiles::kWarps * 32;
  // Warps over the scores: two along the queries, the others along the keys.
  constexpr int kSWarps = Tiles::kWarps / 2, kSM = Tiles::kScoreRows / 16, kSN = kN / kSWarps / 8;
  // Warps over dk and dv: kKeyWarps along the keys (32 each), the others along D.
  constexpr int kKeyWarps = kN / 32, kDWarps = Tiles::kWarps / kKeyWarps, kDN = kD / kDWarps / 8;
  // Warps over dq: kM / 32 along the queries (32 each), the others along D.
  constexpr int kQWarps = Tiles::kWarps / (kM / 32), kQN = kD / kQWarps / 8;
  static_assert(kSN % 2 == 0 && kDN % 2 == 0 && kQN % 2 == 0);  // operands come in pairs
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ unsigned work;
  const SharedTile<kN, kD> k{shared_address(memory)}, v{k.base + k.kBytes};
  const uint32_t stages = v.base + v.kBytes;
  using QTile = SharedTile<kM, kD>;
  const auto q_at = [&](int stage) { return QTile{stages + uint32_t(stage) * 2 * QTile::kBytes}; };
  const auto do_at = [&](int stage) { return QTile{stages + uint32_t(stage) * 2 * QTile::kBytes + QTile::kBytes}; };
  const SharedTile<kM, Tiles::kPitch> ps{stages + kStages * 2 * QTile::kBytes}, dss{ps.base + ps.kBytes};

  if (threadIdx.x == 0) work = atomicAdd(p.ticket, 1);
  __syncthreads();
  const int j = p.key_tiles - 1 - int(work) % p.key_tiles, hkv = int(work) / p.key_tiles % p.Hkv, b = int(work) / p.key_tiles / p.Hkv;
  const int n0 = j * kN, first = n0 / kM, group = p.H / p.Hkv, steps = (p.query_tiles - first) * group;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int s_row = warp / kSWarps * Tiles::kScoreRows, s_column = warp % kSWarps * (kN / kSWarps);
  const int d_row = warp % kKeyWarps * 32, d_column = warp / kKeyWarps * (kD / kDWarps);
  const int q_row = warp / kQWarps * 32, q_column = warp % kQWarps * (kD / kQWarps);
  const float to_log2 = p.scale * kLog2e;

  const auto load_queries = [&](int step, int stage) {
    const int h = hkv * group + step / (p.query_tiles - first), m0 = (first + step % (p.query_tiles - first)) * kM;
    q_at(stage).template load<kThreads>(p.q.row(b, m0, h), p.q.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
    do_at(stage).template load<kThreads>(p.dout.row(b, m0, h), p.dout.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };
  k.template load<kThreads>(p.k.row(b, n0, hkv), p.k.time, p.T - n0, p.D, p.aligned, int(threadIdx.x));
  v.template load<kThreads>(p.v.row(b, n0, hkv), p.v.time, p.T - n0, p.D, p.aligned, int(threadIdx.x));
  load_queries(0, 0);

  FragmentC dk[2][kDN] = {}, dv[2][kDN] = {};
  unsigned* passed = nullptr;  // whose turn ends once everybody's sums are written
  for (int step = 0; step < steps; ++step) {
    const int i = first + step % (p.query_tiles - first), h = hkv * group + step / (p.query_tiles - first), m0 = i * kM;
    const int64_t rows = (int64_t(b) * p.H + h) * p.T, tile = (int64_t(b) * p.H + h) * p.query_tiles + i;
    const QTile q = q_at(step % kStages), dout = do_at(step % kStages);
    if constexpr (kStages == 1)
      if (step > 0) {
        __syncthreads();  // everybody is done with the last step's tiles
        load_queries(step, 0);
      }
    copies_wait<0>();
    __syncthreads();  // this step's tiles are there; everybody is done with the last step's
    if (passed && threadIdx.x == 0) store_release(passed, load_acquire(passed) + 1);
    if (kStages == 2 && step + 1 < steps) load_queries(step + 1, (step + 1) % kStages);
    if (n0 + kN - 1 > m0 &&
        (k.template some_not_finite<kThreads>() || q.template some_not_finite<kThreads>() || dout.template some_not_finite<kThreads>()))
      p.not_finite[0] = p.not_finite[1 + b * p.Hkv + hkv] = 1;

    FragmentC s[kSM][kSN] = {}, dp[kSM][kSN] = {};
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      FragmentA a[kSM], da[kSM];
#pragma unroll
      for (int m = 0; m < kSM; ++m) a[m] = q.a(s_row + m * 16, d), da[m] = dout.a(s_row + m * 16, d);
#pragma unroll
      for (int n = 0; n < kSN; n += 2) {
        FragmentB keys[2], values[2];
        k.b_transposed(keys, s_column + n * 8, d);
        v.b_transposed(values, s_column + n * 8, d);
#pragma unroll
        for (int m = 0; m < kSM; ++m)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            multiply_add(s[m][n + e], a[m], keys[e]);
            multiply_add(dp[m][n + e], da[m], values[e]);
          }
      }
    }
#pragma unroll
    for (int m = 0; m < kSM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = s_row + m * 16 + half * 8 + g, query = m0 + row;
        const float lse = query < p.T ? p.lse[rows + query] * kLog2e : __builtin_huge_valf();
        const float delta = query < p.T ? p.delta[rows + query] : 0.0f;
#pragma unroll
        for (int n = 0; n < kSN; ++n) {
          float pr[2], ds[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int key = n0 + s_column + n * 8 + t * 2 + e;
            pr[e] = key > query ? 0.0f : exp2_approx(fmaf(s[m][n].x[2 * half + e], to_log2, -lse));
            ds[e] = key > query ? 0.0f : pr[e] * (dp[m][n].x[2 * half + e] - delta);
          }
          ps.put(row, s_column + n * 8 + t * 2, pack(pr[0], pr[1]));
          dss.put(row, s_column + n * 8 + t * 2, pack(ds[0], ds[1]));
        }
      }
    const int last = min((m0 + kM - 1) / kN, p.key_tiles - 1);  // the first in order to add to this tile of dq
    if (threadIdx.x == 0)
      while (load_acquire(p.turns + tile) != unsigned(last - j)) __nanosleep(20);
    __syncthreads();  // p and ds are there; it is this block's turn

    float4* sums = reinterpret_cast<float4*>(p.sums) + (tile * Tiles::kWarps + warp) * (2 * kQN) * 32 + lane;
    FragmentC dq[2][kQN] = {};
    if (j < last)
#pragma unroll
      for (int f = 0; f < 2 * kQN; ++f) *reinterpret_cast<float4*>(dq[f / kQN][f % kQN].x) = __ldcg(sums + f * 32);
#pragma unroll
    for (int m = 0; m < kM; m += 16) {
      FragmentA pa[2], da[2];
#pragma unroll
      for (int n = 0; n < 2; ++n) pa[n] = ps.a_transposed(m, d_row + n * 16), da[n] = dss.a_transposed(m, d_row + n * 16);
#pragma unroll
      for (int d = 0; d < kDN; d += 2) {
        FragmentB values[2], queries[2];
        dout.b(values, m, d_column + d * 8);
        q.b(queries, m, d_column + d * 8);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            multiply_add(dv[n][d + e], pa[n], values[e]);
            multiply_add(dk[n][d + e], da[n], queries[e]);
          }
      }
    }
#pragma unroll
    for (int n = 0; n < kN; n += 16) {
      FragmentA a[2];
#pragma unroll
      for (int m = 0; m < 2; ++m) a[m] = dss.a(q_row + m * 16, n);
#pragma unroll
      for (int d = 0; d < kQN; d += 2) {
        FragmentB keys[2];
        k.b(keys, n, q_column + d * 8);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_add(dq[m][d], a[m], keys[0]);
          multiply_add(dq[m][d + 1], a[m], keys[1]);
        }
      }
    }
    if (j > 0) {
#pragma unroll
      for (int f = 0; f < 2 * kQN; ++f) __stcg(sums + f * 32, *reinterpret_cast<float4*>(dq[f / kQN][f % kQN].x));
      __threadfence();
    } else {
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int d = 0; d < kQN; ++d)
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const int query = m0 + q_row + m * 16 + x / 2 * 8 + g, column = q_column + d * 8 + t * 2 + x % 2;
            if (query < p.T && column < p.D) p.dq.row(b, query, h)[column] = __float2bfloat16_rn(dq[m][d].x[x] * p.scale);
          }
    }
    passed = p.turns + tile;
  }
  __syncthreads();
  if (threadIdx.x == 0) store_release(passed, load_acquire(passed) + 1);
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int d = 0; d < kDN; ++d)
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int key = n0 + d_row + n * 16 + x / 2 * 8 + g, column = d_column + d * 8 + t * 2 + x % 2;
        if (key >= p.T || column >= p.D) continue;
        p.dk.row(b, key, hkv)[column] = __float2bfloat16_rn(dk[n][d].x[x] * p.scale);
        p.dv.row(b, key, hkv)[column] = __float2bfloat16_rn(dv[n][d].x[x]);
      }
}

}  // namespace weft::cuda
