// Grouped matmuls with small tiles: for any alignment and GPU, f32, and few rows per expert.
#pragma once

#include "weft/ops/grouped_matmul/cuda/expert_tiles.cuh"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

struct GroupedParams {
  ExpertRows rows;
  int K, N;
  int64_t a_stride, c_stride;
  const void* bias;  // [E, N]; may be null
  bool wide_bias;    // the bias is f32
  bool aligned_a, aligned_b;
  Fault* fault;
  const char* op;

  template <class T>
  __device__ __forceinline__ float bias_at(int expert, int n) const {
    const int64_t at = int64_t(expert) * N + n;
    return !bias ? 0.0f : wide_bias ? static_cast<const float*>(bias)[at] : to_float(static_cast<const T*>(bias)[at]);
  }
};

// Four warps: with kM = 64 each computes 16 rows, with kM = 16 each computes 16 columns.
template <bool kTransposed_, int kM_>
struct SmallTiles {
  static constexpr bool kTransposed = kTransposed_;
  static constexpr int kM = kM_, kN = 64, kK = 64, kStages = 3, kThreads = 128;
  static constexpr int kPairs = kM == 64 ? 4 : 1;  // pairs of 16x8 sums per warp
  using A = SharedTile<kM, kK>;
  using B = SharedTile<64, 64>;  // transposed: rows are columns of c
  static constexpr int kStageBytes = A::kBytes + B::kBytes, kBytes = kStages * kStageBytes;
};

// Equation: c[i] = a[i] op(b[e]) + bias[e] for the rows i of expert e.
// Layout:   a [P, K] and c [P, N] with a row stride each, b [E, K, N] or [E, N, K], starts [E + 1].
// Grid:     (ceil(N / 64), most_row_tiles) blocks of four warps. K in blocks of 16, one mma.sync after the other from zero; then the bias.
// Requires: any extents: edges are padded with zeros. Blocks beyond the last tile end at once.
// Traffic:  a once per 64 columns, an expert's matrix once per kM of its rows; c once.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads)
    grouped_mma(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, const GroupedParams p) {
  extern __shared__ __align__(128) unsigned char bytes[];
  if (blockIdx.x == 0 && blockIdx.y == 0) p.rows.check(p.fault, p.op);
  int tiles = 0;
  const RowTile rows = row_tile<Tiles::kM>(p.rows, int(blockIdx.y), tiles);
  if (rows.expert < 0) return;
  const int n0 = int(blockIdx.x) * Tiles::kN, warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int row0 = Tiles::kM == 64 ? warp * 16 : 0, column0 = Tiles::kM == 64 ? 0 : warp * 16;
  const __nv_bfloat16* left = a + rows.first * p.a_stride;
  const __nv_bfloat16* right = b + int64_t(rows.expert) * p.N * p.K + (Tiles::kTransposed ? int64_t(n0) * p.K : n0);
  const auto stage_of = [&](int block) { return shared_address(bytes) + uint32_t(block % Tiles::kStages * Tiles::kStageBytes); };
  const int blocks = (p.K + Tiles::kK - 1) / Tiles::kK;
  const auto load = [&](int block) {
    if (block < blocks) {
      const int k = block * Tiles::kK;
      const typename Tiles::A to_a{stage_of(block)};
      const typename Tiles::B to_b{stage_of(block) + Tiles::A::kBytes};
      to_a.template load<Tiles::kThreads>(left + k, p.a_stride, rows.last - rows.first, p.K - k, p.aligned_a, int(threadIdx.x));
      if constexpr (Tiles::kTransposed)
        to_b.template load<Tiles::kThreads>(right + k, p.K, p.N - n0, p.K - k, p.aligned_b, int(threadIdx.x));
      else
        to_b.template load<Tiles::kThreads>(right + int64_t(k) * p.N, p.N, p.K - k, p.N - n0, p.aligned_b, int(threadIdx.x));
    }
    copies_end();
  };
  for (int block = 0; block < Tiles::kStages - 1; ++block) load(block);
  FragmentC sums[2 * Tiles::kPairs] = {};
  for (int block = 0; block < blocks; ++block) {
    copies_wait<Tiles::kStages - 2>();
    __syncthreads();
    load(block + Tiles::kStages - 1);
    const typename Tiles::A in_a{stage_of(block)};
    const typename Tiles::B in_b{stage_of(block) + Tiles::A::kBytes};
#pragma unroll
    for (int k = 0; k < Tiles::kK; k += 16) {
      if (block * Tiles::kK + k >= p.K) break;
      const FragmentA x = in_a.a(row0, k);
#pragma unroll
      for (int pair = 0; pair < Tiles::kPairs; ++pair) {
        FragmentB y[2];
        if constexpr (Tiles::kTransposed)
          in_b.b_transposed(y, column0 + pair * 16, k);
        else
          in_b.b(y, k, column0 + pair * 16);
        multiply_add(sums[2 * pair], x, y[0]);
        multiply_add(sums[2 * pair + 1], x, y[1]);
      }
    }
  }
#pragma unroll
  for (int f = 0; f < 2 * Tiles::kPairs; ++f)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = rows.first + row0 + FragmentC::row(i, lane), column = n0 + column0 + f * 8 + FragmentC::column(i, lane);
      if (row >= rows.last || column >= p.N) continue;
      float x = sums[f].x[i];
      if (p.bias) x += p.bias_at<__nv_bfloat16>(rows.expert, column);
      c[row * p.c_stride + column] = from_float<__nv_bfloat16>(x);
    }
}

inline constexpr int kSimtSide = 64, kSimtK = 16;

// Equation, layout: as grouped_mma, in f32.
// Grid:     (ceil(N / 64), most_row_tiles) blocks of 256 threads with 4x4 sums each; one FMA for each k from zero, then the bias.
// Requires: any extents. Blocks beyond the last tile end at once.
// Traffic:  a once per 64 columns, an expert's matrix once per 64 of its rows; c once.
template <bool kTransposed>
__global__ void __launch_bounds__(256) grouped_simt(const float* a, const float* b, float* c, const GroupedParams p) {
  __shared__ float left[kSimtK][kSimtSide + 4], right[kSimtK][kSimtSide + 4];
  if (blockIdx.x == 0 && blockIdx.y == 0) p.rows.check(p.fault, p.op);
  int tiles = 0;
  const RowTile rows = row_tile<kSimtSide>(p.rows, int(blockIdx.y), tiles);
  if (rows.expert < 0) return;
  const int n0 = int(blockIdx.x) * kSimtSide, x = int(threadIdx.x) % 16, y = int(threadIdx.x) / 16;
  const float* matrix = b + int64_t(rows.expert) * p.N * p.K;
  float sums[4][4] = {};
  for (int k0 = 0; k0 < p.K; k0 += kSimtK) {
    __syncthreads();
    for (int i = int(threadIdx.x); i < kSimtSide * kSimtK; i += 256) {
      const int row = i / kSimtK, k = i % kSimtK;
      left[k][row] = rows.first + row < rows.last && k0 + k < p.K ? a[(rows.first + row) * p.a_stride + k0 + k] : 0.0f;
      const int column = kTransposed ? i / kSimtK : i % kSimtSide, from = kTransposed ? i % kSimtK : i / kSimtSide;
      const bool inside = n0 + column < p.N && k0 + from < p.K;
      right[from][column] =
          inside ? matrix[kTransposed ? int64_t(n0 + column) * p.K + k0 + from : int64_t(k0 + from) * p.N + n0 + column] : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kSimtK && k0 + k < p.K; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(left[k][y + 16 * i], right[k][x + 16 * j], sums[i][j]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = rows.first + y + 16 * i, column = n0 + x + 16 * j;
      if (row < rows.last && column < p.N)
        c[row * p.c_stride + column] = p.bias ? sums[i][j] + p.bias_at<float>(rows.expert, column) : sums[i][j];
    }
}

}  // namespace weft::cuda
