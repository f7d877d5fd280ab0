// Sums over rows in two fixed stages: team g of P adds up rows g, g + P, g + 2 P, ... in order into partial row g, then the
// partial rows are added in order. P depends on shape and dtypes alone (rows.h).
#pragma once

#include "weft/tile/metal/rows.metal.h"

namespace weft {

// The sums of one thread, in registers.
template <int N>
struct ColumnSums {
  float sums[kMostChunks * N];

  void clear() {
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) sums[k * N + i] = 0;
  }
  void add(int k, int i, float x) { sums[k * N + i] += x; }
  void write(device float* partial, Team team, int columns) const {
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Span at = span<N>(team, k, columns);
        if (i < at.count) partial[at.first + i] = sums[k * N + i];
      }
  }
};

// Rows that a team cannot hold are read twice: once for their sums, then column by column, each thread with N columns of rows
// g, g + P, ... in order. Returns the columns of this thread.
template <int N>
inline Span own_columns(uint group, uint thread_index, int columns) {
  const long first = (long(group) * 256 + thread_index) * N, left = columns - first;
  return {int(metal::min(first, long(columns))), int(metal::clamp(left, 0l, long(N)))};
}
// A row's statistic, read once for each simdgroup; every thread of it calls this.
inline float of_row(device const float* statistic, long row, uint thread_index) {
  return metal::simd_broadcast(thread_index % 32 == 0 ? statistic[row] : 0.0f, 0);
}

}  // namespace weft

// Equation: out[c] = sum over p of partial[p][c].
// Layout:   partial [P, C], out [C], contiguous; shape = (P, C).
// Order:    eight runs of consecutive p, each in order; then the runs in order.
// Requires: threadgroups of 256 threads: 32 columns by 8 runs; C / 32 of them. P = 0 gives zeros.
// Traffic:  one read of partial, one write of out.
[[max_total_threads_per_threadgroup(256)]]
kernel void sum_partials(device const float* partial [[buffer(0)]], device float* out [[buffer(1)]], constant long2& shape [[buffer(2)]],
                         uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup float runs[8][32];
  const long P = shape.x, C = shape.y, run = (P + 7) / 8, column = long(group) * 32 + thread_index % 32;
  const int own = int(thread_index / 32);
  float sum = 0;
  if (column < C)
    for (long p = run * own; p < P && p < run * (own + 1); ++p) sum += partial[p * C + column];
  runs[own][thread_index % 32] = sum;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (own > 0 || column >= C) return;
  for (int r = 1; r < 8; ++r) sum += runs[r][thread_index % 32];
  out[column] = sum;
}
