// The forward pass in bf16 on tensor cores (Dao, 2023): a block keeps a tile of queries and iterates over the tiles of keys.
#pragma once

#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

struct ForwardParams {
  Heads<const __nv_bfloat16> q, k, v;
  Heads<__nv_bfloat16> o;
  float* lse;            // [B, H, T]; absent: not wanted
  const int32_t* start;  // [B]: keys before the first query; absent: none
  int* not_finite;       // [1 + B Hkv]: any, then each: set if a value in a tile on the diagonal is not finite; simt.cuh then recomputes
  int T, H, group, D, most;  // group = H / Hkv; most: keys that k and v can hold
  float scale;
  bool aligned;
};

__device__ __forceinline__ void report_not_finite(const ForwardParams& p, int b, int hkv) {
  p.not_finite[0] = p.not_finite[1 + b * (p.H / p.group) + hkv] = 1;
}

// Writes o / sum and lse of a warp's rows, which begin at row0 of the tile. They go through the queries' memory, so that rows are
// written sixteen bytes at a time; a warp reads and writes its own rows.
template <class Shared, int kRows, int kD>
__device__ __forceinline__ void store_output(const ForwardParams& p, const Shared& q, const RegisterTile<kRows, kD>& o,
                                             const RunningRow (&rows)[kRows / 16][2], int b, int h, int m0, int row0, int lane) {
#pragma unroll
  for (int m = 0; m < o.kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = quad_sum(rows[m][half].sum);
      const int row = row0 + o.row(m, 2 * half, lane);
      o.put_row(q, row, m, half, 1.0f / total, lane);
      if (p.lse && lane % 4 == 0 && m0 + row < p.T)
        p.lse[(int64_t(b) * p.H + h) * p.T + m0 + row] = rows[m][half].largest * p.scale + logf(total);
    }
  __syncwarp();
  for (int at = lane; at < kRows * q.kPieces; at += 32) {
    const int row = row0 + at / q.kPieces, column = at % q.kPieces * 8;
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

// Equation: o = softmax(scale q k^T) v over the keys up to start + query; lse = log of the sum of exponentials.
// Layout:   q, o [B, T, H, D], k, v [B, start + T or more, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    a block per (tile of queries, head, sequence); tiles of kForwardKeys keys from the diagonal to the first, sums in f32 in
//           registers; p is rounded to bf16 for its matmul with v. Maximum and sum of a row over four lanes by butterfly.
// Requires: D <= kD; unaligned rows are loaded element by element. A start out of range: nothing is written.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::kWarps * 32, Tiles::kBlocks) causal_forward(const ForwardParams p) {
  constexpr int kD = Tiles::kD, kM = Tiles::kM, kN = Tiles::kN, kThreads = Tiles::kWarps * 32, kRows = kM / Tiles::kWarps;
  extern __shared__ __align__(128) unsigned char memory[];
  const SharedTile<kM, kD> q{shared_address(memory)};
  const SharedTile<kN, kD> k{q.base + q.kBytes}, v{k.base + k.kBytes};

  const int tile = int(gridDim.x - 1 - blockIdx.x);  // the longest first
  const int h = int(blockIdx.y), b = int(blockIdx.z), hkv = h / p.group, m0 = tile * kM;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp * kRows;
  const int before = p.start ? p.start[b] : 0, keys = before + p.T;
  if (before < 0 || before > p.most - p.T) return;
  const auto load_keys = [&](int n0) {
    k.template load<kThreads>(p.k.row(b, n0, hkv), p.k.time, keys - n0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };
  const auto load_values = [&](int n0) {
    v.template load<kThreads>(p.v.row(b, n0, hkv), p.v.time, keys - n0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };

  RegisterTile<kRows, kD> o = {};
  RunningRow rows[kRows / 16][2];
  const int last = min(before + m0 + kM - 1, keys - 1) / kN;
  q.template load<kThreads>(p.q.row(b, m0, h), p.q.time, p.T - m0, p.D, p.aligned, int(threadIdx.x));
  load_keys(last * kN);
  for (int j = last; j >= 0; --j) {
    const int n0 = j * kN;
    copies_wait<0>();
    __syncthreads();  // k has arrived; all warps are done with v
    load_values(n0);

    RegisterTile<kRows, kN> s = {};
    multiply_add_transposed(s, q, row0, k, 0);
    copies_wait<0>();
    __syncthreads();  // v has arrived; all warps are done with k
    if (j > 0) load_keys(n0 - kN);

    const bool masked = n0 + kN - 1 > before + m0;  // for some query of the block; also at the last key
    if (masked && v.template some_not_finite<kThreads>()) report_not_finite(p, b, hkv);
    if (n0 + kN - 1 > before + m0 + row0) s.mask_above_diagonal(before + m0 + row0, n0, lane);
    scores_to_weights(s, o, rows, p.scale * kLog2e);
    multiply_add(o, s, v);
  }

  __syncwarp();
  store_output(p, q, o, rows, b, h, m0, row0, lane);
}

}  // namespace weft::cuda
