// Sums over rows in two fixed stages: team g of P adds up rows g, g + P, g + 2 P, ... in order into partial row g, then the
// partial rows are added in order. P is given by shape and dtypes alone (rows.h).
#pragma once

#include "weft/tile/metal/rows.metal.h"

namespace weft {

// What one thread adds up: in registers where rows are held there, else in the team's partial row.
template <int N>
struct ColumnSums {
  float sums[kMostChunks * N];

  void clear(device float* partial, Team team, int columns) {
    for (int k = 0; k < turns<N>(team, columns); ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Span at = span<N>(team, k, columns);
        if (kChunks > 0) sums[k * N + i] = 0;
        else if (i < at.count) partial[at.first + i] = 0;
      }
  }
  void add(device float* partial, int k, Span at, int i, float x) {
    if (kChunks > 0) sums[k * N + i] += x;
    else if (i < at.count) partial[at.first + i] += x;
  }
  void write(device float* partial, Team team, int columns) const {
    if (kChunks == 0) return;
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Span at = span<N>(team, k, columns);
        if (i < at.count) partial[at.first + i] = sums[k * N + i];
      }
  }
};

}  // namespace weft

// Equation: out[c] = sum over p of partial[p][c].
// Layout:   partial [P, C], out [C], contiguous; shape = (P, C).
// Order:    eight runs of consecutive p, each in order; then the runs in order.
// Requires: threadgroups of 256 threads: 32 columns by 8 runs; C / 32 of them. P = 0 gives zeros.
// Traffic:  one read of partial, one write of out.
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
