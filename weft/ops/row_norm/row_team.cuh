// The sum over a row of bf16 as norm_forward computes it, for fused kernels with other thread counts (docs/numerics.md, "One order: CUDA"):
// a team of virtual threads, of which thread t has chunks t, t + team, ...; a butterfly in each warp; then the warps in order.
#pragma once

#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

using RowPiece = Chunk<__nv_bfloat16, 8>;
inline constexpr int kMostTeamWarps = 32;

// Number of threads in the team, as in with_walk (weft/tile/cuda/rows.cuh).
__host__ __device__ inline int row_team(int columns) {
  const int chunks = (columns + 7) / 8;
  return chunks <= 32 ? 32 : chunks <= 256 ? 128 : chunks <= 512 ? 256 : chunks <= 1024 ? 512 : 1024;
}

// The sum of squares of one warp of the team, computed by one warp; every lane gets it.
__device__ __forceinline__ float team_warp_squares(const RowPiece* row, int chunks, int warp, int warps) {
  float sum = 0;
  for (int c = warp * 32 + int(threadIdx.x) % 32; c < chunks; c += warps * 32) {
    const RowPiece piece = row[c];
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = fmaf(piece[e], piece[e], sum);
  }
  return warp_reduce(sum, Sum());
}
__device__ __forceinline__ float team_total(const float* sums, int warps) {
  float total = sums[0];
  for (int w = 1; w < warps; ++w) total += sums[w];
  return total;
}
__device__ __forceinline__ float row_rstd(float squares, int columns, float eps) { return 1.0f / sqrtf(squares / float(columns) + eps); }

}  // namespace weft::cuda
