// The forward pass in bf16 on tensor cores (Dao, 2023): a block keeps a tile of queries and walks over the tiles of keys.
#pragma once

#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/heads.cuh"
#include "weft/tile/cuda/math.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

struct ForwardParams {
  Heads<const __nv_bfloat16> q, k, v;
  Heads<__nv_bfloat16> o;
  float* lse;            // [B, H, T]; absent: not wanted
  const int32_t* start;  // [B]: keys before the first query; absent: none
  int* not_finite;  // [1 + B Hkv]: any, then each: set where a value beside the diagonal is an infinity or NaN (simt.cuh does it again)
  int T, H, group, D, most;  // group = H / Hkv; most: keys that k and v can hold
  float scale;
  bool aligned;
};

// Equation: o = softmax(scale q k^T) v over the keys up to start + query; lse = log of the sum of exponentials.
// Layout:   q, o [B, T, H, D], k, v [B, start + T or more, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    a block per (tile of queries, head, sequence); tiles of keys from the diagonal to the first, sums in f32 in
//           registers; p is rounded to bf16 for its product with v. Maximum and sum of a row over four lanes by butterfly.
// Requires: D <= kD; unaligned rows are loaded element by element. A start that leaves no room: nothing is written.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::kWarps * 32, Tiles::kBlocks) causal_forward(const ForwardParams p) {
  constexpr int kD = Tiles::kD, kM = Tiles::kM, kN = Tiles::kN, kThreads = Tiles::kWarps * 32, kRows = kM / Tiles::kWarps,
                kMTiles = kRows / 16;
  constexpr int kSTiles = kN / 8, kOTiles = kD / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  const SharedTile<kM, kD> q{shared_address(memory)};
  const SharedTile<kN, kD> k{q.base + q.kBytes}, v{k.base + k.kBytes};

  const int tile = int(gridDim.x - 1 - blockIdx.x);  // the longest first
  const int h = int(blockIdx.y), b = int(blockIdx.z), hkv = h / p.group, m0 = tile * kM;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp * kRows + lane / 4;
  const float to_log2 = p.scale * kLog2e;
  const int before = p.start ? p.start[b] : 0, keys = before + p.T;
  if (before < 0 || before > p.most - p.T) return;

  FragmentC o[kMTiles][kOTiles] = {};
  float largest[kMTiles][2], sum[kMTiles][2];
#pragma unroll
  for (int m = 0; m < kMTiles; ++m) largest[m][0] = largest[m][1] = Max::kNone, sum[m][0] = sum[m][1] = 0;

  const int last = min(before + m0 + kM - 1, keys - 1) / kN;
  q.template load<kThreads>(p.q.row(b, m0, h), p.q.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
  k.template load<kThreads>(p.k.row(b, last * kN, hkv), p.k.time, keys - last * kN, p.D, p.aligned, int(threadIdx.x));
  copies_end();
  for (int j = last; j >= 0; --j) {
    const int n0 = j * kN;
    copies_wait<0>();
    __syncthreads();  // k is there; everybody is done with v
    v.template load<kThreads>(p.v.row(b, n0, hkv), p.v.time, keys - n0, p.D, p.aligned, int(threadIdx.x));
    copies_end();

    FragmentC s[kMTiles][kSTiles] = {};
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      FragmentA a[kMTiles];
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) a[m] = q.a(warp * kRows + m * 16, d);
#pragma unroll
      for (int n = 0; n < kSTiles; n += 2) {
        FragmentB keys[2];
        k.b_transposed(keys, n * 8, d);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
          multiply_add(s[m][n], a[m], keys[0]);
          multiply_add(s[m][n + 1], a[m], keys[1]);
        }
      }
    }
    copies_wait<0>();
    __syncthreads();  // v is there; everybody is done with k
    if (j > 0) {
      k.template load<kThreads>(p.k.row(b, n0 - kN, hkv), p.k.time, keys - (n0 - kN), p.D, p.aligned, int(threadIdx.x));
      copies_end();
    }

    if (n0 + kN - 1 > before + m0 && v.template some_not_finite<kThreads>())
      p.not_finite[0] = p.not_finite[1 + b * (p.H / p.group) + hkv] = 1;
    if (n0 + kN - 1 > before + m0 + warp * kRows) {  // the diagonal, and the end
#pragma unroll
      for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int n = 0; n < kSTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int query = before + m0 + row0 + m * 16 + i / 2 * 8, key = n0 + n * 8 + lane % 4 * 2 + i % 2;
            if (key > query) s[m][n].x[i] = Max::kNone;
          }
    }
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = largest[m][half];
#pragma unroll
        for (int n = 0; n < kSTiles; ++n) most = fmaxf(most, fmaxf(s[m][n].x[2 * half], s[m][n].x[2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        const ScoreBase base(most, to_log2);
        const float shrink = base.weight(largest[m][half]);
        largest[m][half] = most;
        float more = 0;
#pragma unroll
        for (int n = 0; n < kSTiles; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            s[m][n].x[i] = base.weight(s[m][n].x[i]);
            more += s[m][n].x[i];
          }
        sum[m][half] = fmaf(sum[m][half], shrink, more);
        if (__any_sync(0xffffffffu, shrink != 1.0f))  // the maximum seldom moves after the first tiles
#pragma unroll
          for (int n = 0; n < kOTiles; ++n) o[m][n].x[2 * half] *= shrink, o[m][n].x[2 * half + 1] *= shrink;
      }
#pragma unroll
    for (int key = 0; key < kN; key += 16) {
      FragmentA a[kMTiles];
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) a[m] = as_operand(s[m][key / 8], s[m][key / 8 + 1]);
#pragma unroll
      for (int n = 0; n < kOTiles; n += 2) {
        FragmentB values[2];
        v.b(values, key, n * 8);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
          multiply_add(o[m][n], a[m], values[0]);
          multiply_add(o[m][n + 1], a[m], values[1]);
        }
      }
    }
  }

  // Through the queries' memory, so that rows are written sixteen bytes at a time. A warp reads and writes its own rows.
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kMTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[m][half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float over = 1.0f / total;
      const int row = row0 + m * 16 + half * 8;
#pragma unroll
      for (int n = 0; n < kOTiles; ++n) q.put(row, n * 8 + lane % 4 * 2, pack(o[m][n].x[2 * half] * over, o[m][n].x[2 * half + 1] * over));
      if (p.lse && lane % 4 == 0 && m0 + row < p.T)
        p.lse[(int64_t(b) * p.H + h) * p.T + m0 + row] = largest[m][half] * p.scale + logf(total);
    }
  __syncwarp();
  for (int at = lane; at < kRows * q.kPieces; at += 32) {
    const int row = warp * kRows + at / q.kPieces, column = at % q.kPieces * 8;
    if (m0 + row >= p.T || column >= p.D) continue;
    const uint4 piece = q.piece(row, column);
    __nv_bfloat16* to = p.o.row(b, m0 + row, h) + column;
    if (p.aligned) {
      *reinterpret_cast<uint4*>(to) = piece;
    } else {
      const auto* element = reinterpret_cast<const __nv_bfloat16*>(&piece);
      for (int i = 0; i < 8 && column + i < p.D; ++i) to[i] = element[i];
    }
  }
}

}  // namespace weft::cuda
