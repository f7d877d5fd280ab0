// The forward pass in bf16 on tensor cores (Dao, 2023): a block keeps a tile of queries and iterates over the tiles of keys.
#pragma once

#include "weft/ops/causal_attention/cuda/sequence.cuh"
#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

struct ForwardParams {
  Heads<const __nv_bfloat16> q, k, v;
  Heads<__nv_bfloat16> o;
  float* lse;                // [B, H, T]; absent: not wanted
  const int32_t* start;      // [B]: keys before the first query; absent: none
  int* not_finite;           // [1 + sequences Hkv]: any, then each: set if a value in a masked tile is not finite; simt.cuh then recomputes
  int T, H, group, D, most;  // group = H / Hkv; most: keys that k and v can hold
  float scale;
  bool aligned;
  AttentionRule rule;
};

__device__ __forceinline__ void report_not_finite(const ForwardParams& p, int sequence, int hkv) {
  p.not_finite[0] = p.not_finite[1 + sequence * (p.H / p.group) + hkv] = 1;
}

// Writes o / sum and lse of a warp's rows, which begin at row0 of the tile; score_scale: from scores to s. They go through the queries'
// memory, so that rows are written sixteen bytes at a time; a warp reads and writes its own rows.
template <class Shared, int kRows, int kD>
__device__ __forceinline__ void store_output(const ForwardParams& p, const Shared& q, const RegisterTile<kRows, kD>& o,
                                             const RunningRow (&rows)[kRows / 16][2], const SequenceTile& at, int h, int m0, int row0,
                                             float score_scale, int lane) {
#pragma unroll
  for (int m = 0; m < o.kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = quad_sum(rows[m][half].sum);
      const int row = row0 + o.row(m, 2 * half, lane);
      o.put_row(q, row, m, half, 1.0f / total, lane);
      if (p.lse && lane % 4 == 0 && m0 + row < at.length)
        p.lse[(int64_t(at.b) * p.H + h) * p.T + at.first + m0 + row] = rows[m][half].largest * score_scale + logf(total);
    }
  __syncwarp();
  for (int i = lane; i < kRows * q.kPieces; i += 32) {
    const int row = row0 + i / q.kPieces, column = i % q.kPieces * 8;
    if (m0 + row >= at.length || column >= p.D) continue;
    const uint4 piece = q.piece(row, column);
    __nv_bfloat16* to = p.o.row(at.b, at.first + m0 + row, h) + column;
    if (p.aligned) {
      *reinterpret_cast<uint4*>(to) = piece;
    } else {
      const auto* element = reinterpret_cast<const __nv_bfloat16*>(&piece);
      for (int e = 0; e < 8 && column + e < p.D; ++e) to[e] = element[e];
    }
  }
}

// Equation: o = softmax(scale q k^T) v over the keys up to start + query; lse = log of the sum of exponentials. With options: those of
//           the op, and no start.
// Layout:   q, o [B, T, H, D], k, v [B, start + T or more, Hkv, D] with any strides over B, T, H; lse [B, H, T].
// Order:    a block per (tile of queries, head, sequence); tiles of kForwardKeys keys from the diagonal to the first, sums in f32 in
//           registers; p is rounded to bf16 for its matmul with v. Maximum and sum of a row over four lanes by butterfly.
// Requires: D <= kD; unaligned rows are loaded element by element. A start out of range: nothing is written.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <class Tiles, bool kOptions>
__global__ void __launch_bounds__(Tiles::kWarps * 32, Tiles::kBlocks) causal_forward(const ForwardParams p) {
  constexpr int kD = Tiles::kD, kM = Tiles::kM, kN = Tiles::kN, kThreads = Tiles::kWarps * 32, kRows = kM / Tiles::kWarps;
  extern __shared__ __align__(128) unsigned char memory[];
  const SharedTile<kM, kD> q{shared_address(memory)};
  const SharedTile<kN, kD> k{q.base + q.kBytes}, v{k.base + k.kBytes};

  const SequenceTile at = tile_of_slot<kOptions, kM>(p.rule, int(gridDim.x - 1 - blockIdx.x), int(blockIdx.z), p.T);  // the longest first
  const int h = int(blockIdx.y), b = at.b, hkv = h / p.group, m0 = at.tile * kM;
  if (kOptions && m0 >= at.length) return;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp * kRows;
  const int before = p.start ? p.start[b] : 0, keys = before + at.length;
  if (before < 0 || before > p.most - at.length) return;
  const auto load_keys = [&](int n0) {
    k.template load<kThreads>(p.k.row(b, at.first + n0, hkv), p.k.time, keys - n0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };
  const auto load_values = [&](int n0) {
    v.template load<kThreads>(p.v.row(b, at.first + n0, hkv), p.v.time, keys - n0, p.D, p.aligned, int(threadIdx.x));
    copies_end();
  };

  RegisterTile<kRows, kD> o = {};
  RunningRow rows[kRows / 16][2];
  // With a window, the tiles of keys of a block of 128 queries, as the Hopper kernel has: a tile outside a row's window need not be an
  // exact no-op (shrink can be 1 + 2^-23), so both kernels take the same.
  const int last = min(before + m0 + kM - 1, keys - 1) / kN;
  const int stop = p.rule.template first_key_tile<kOptions, kN>(kD <= 128 ? m0 / 128 * 128 : m0);
  const float score_scale = p.rule.template score_scale<kOptions>(p.scale);
  q.template load<kThreads>(p.q.row(b, at.first + m0, h), p.q.time, at.length - m0, p.D, p.aligned, int(threadIdx.x));
  load_keys(last * kN);
  for (int j = last; j >= stop; --j) {
    const int n0 = j * kN;
    copies_wait<0>();
    __syncthreads();  // k has arrived; all warps are done with v
    load_values(n0);

    RegisterTile<kRows, kN> s = {};
    multiply_add_transposed(s, q, row0, k, 0);
    copies_wait<0>();
    __syncthreads();  // v has arrived; all warps are done with k
    if (j > stop) load_keys(n0 - kN);

    const bool masked = n0 + kN - 1 > before + m0 ||  // for some query of the block; also at the last key
                        p.rule.template window_cuts<kOptions>(min(m0 + kM, at.length) - 1, n0);
    if (masked && v.template some_not_finite<kThreads>()) report_not_finite(p, at.number, hkv);
    if (p.rule.template capped<kOptions>()) s.for_each(lane, [&](int, int, float& score) { score = p.rule.cap(score); });
    if (n0 + kN - 1 > before + m0 + row0) s.mask_above_diagonal(before + m0 + row0, n0, lane);
    if (p.rule.template window_cuts<kOptions>(m0 + row0 + kRows - 1, n0)) s.mask_below_diagonal(m0 + row0 - p.rule.window, n0, lane);
    scores_to_weights(s, o, rows, score_scale * kLog2e);
    multiply_add(o, s, v);
  }

  __syncwarp();
  store_output(p, q, o, rows, at, h, m0, row0, score_scale, lane);
}

}  // namespace weft::cuda
