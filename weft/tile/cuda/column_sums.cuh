// Sums over rows in two fixed stages: groups of threads add up rows g, g + P, g + 2 P, ... in order into P partial rows,
// then the partial rows are added in order. P depends on the shape alone.
#pragma once

#include <algorithm>

#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/rows.cuh"

namespace weft::cuda {

// Groups enough to fill the GPU: three blocks of 256 threads or more for each of 132 multiprocessors, and more of smaller groups,
// which have less in flight, as long as eight rows are left for each.
inline int64_t partial_rows(int64_t rows, int group_threads) {
  const int64_t least = std::min<int64_t>(rows, 396), most = 396 * std::max(1, 384 / group_threads);
  return std::clamp(rows / 8, least, std::max(least, most));
}

// The sums of one group: in registers if rows are held there, else in its partial row.
template <class W>
class ColumnSums {
 public:
  __device__ __forceinline__ ColumnSums(float* partial, int columns) : partial_(partial) {
    W::each(columns, [&](auto at) {
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i)
        if constexpr (W::kHeld)
          sums_[at.slot * W::kWidth + i] = 0;
        else if (at.has(i))
          partial_[at.first + i] = 0;
    });
  }
  template <class At>
  __device__ __forceinline__ void add(At at, int i, float x) {
    if constexpr (W::kHeld)
      sums_[at.slot * W::kWidth + i] += x;
    else if (at.has(i))
      partial_[at.first + i] += x;
  }
  __device__ __forceinline__ void write(int columns) const {
    if constexpr (W::kHeld)
      W::each(columns, [&](auto at) {
#pragma unroll
        for (int i = 0; i < W::kWidth; ++i)
          if (at.has(i)) partial_[at.first + i] = sums_[at.slot * W::kWidth + i];
      });
  }

 private:
  float* partial_;
  float sums_[W::kHeld ? W::kChunks * W::kWidth : 1];
};

// Equation: out[c] = sum over p of partial[p][c].
// Layout:   partial [P, C], out [C], contiguous.
// Order:    32 runs of consecutive p, each in order; then the runs in order.
// Requires: blocks of 32 by 32 threads, C / 32 of them.
// Traffic:  one read of partial, one write of out.
static __global__ void sum_partials(const float* partial, int64_t P, int64_t C, float* out) {
  __shared__ float runs[32][32];
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x, run = (P + 31) / 32;
  float sum = 0;
  if (column < C)
#pragma unroll 16
    for (int64_t p = run * threadIdx.y; p < (P < run * (threadIdx.y + 1) ? P : run * (threadIdx.y + 1)); ++p)
      sum += partial[p * C + column];
  runs[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= C) return;
  for (int r = 1; r < 32; ++r) sum += runs[r][threadIdx.x];
  out[column] = sum;
}
inline void sum_partials(const Launch& launch, const float* partial, int64_t P, int64_t C, float* out) {
  launch(unsigned((C + 31) / 32), dim3(32, 32), 0, static_cast<void (*)(const float*, int64_t, int64_t, float*)>(sum_partials), partial, P,
         C, out);
}

}  // namespace weft::cuda
