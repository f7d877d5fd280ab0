#include <metal_stdlib>

#include "weft/ops/softmax/params.h"
#include "weft/tile/metal/exp_sum.metal.h"

using namespace metal;
using namespace weft;

// Equation: y = e / sum(e), e = exp(scale x - m), m = max(scale x); zeros where m = -infinity.
// Layout:   x, y [R, C] with a row stride each.
// Order:    a team of threads per row; maximum and sum by thread over its chunks, then over the team (team.metal.h).
// Requires: unit stride within a row (the contract's); y may be x. Unaligned rows go element by element.
// Traffic:  one read of x, one write of y; rows longer than a team's registers are read twice.
template <class T>
kernel void softmax_rows(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], constant SoftmaxParams& p [[buffer(2)]],
                         uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                         uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  for (long r = team.index; r < p.rows; r += team.count) {
    device const T* from = x + r * p.x_stride;
    Row<T, N, kLongRow> row;
    row.take(from, team, p.columns);
    const RowExpSum e = exp_sum<T, N, kLongRow>(team, row, from, p.columns, p.scale, 0);
    const float over_sum = e.sum == 0 ? 0.0f : 1.0f / e.sum;  // 0: everything is masked
    for (int k = 0; k < turns<N>(team, p.columns); ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      Chunk<T, N> piece = row.piece(from, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) piece.set(i, precise::exp(piece[i] * p.scale - e.m) * over_sum);
      put<T, N>(piece, y + r * p.y_stride, at);
    }
  }
}

constant constexpr int kTwoRows = 5;  // chunks to a thread while y and dy are both held: 20480 f32, 40960 bf16

// Equation: dx = scale y (dy - s), s = sum(y dy).
// Layout:   y, dy, dx [R, C] with a row stride each.
// Order:    as the forward.
// Requires: as the forward; dx may be dy or y.
// Traffic:  one read of y and dy, one write of dx; of rows longer than a team's registers dy is read twice, then y too.
template <class T>
kernel void softmax_rows_backward(device const T* y [[buffer(0)]], device const T* dy [[buffer(1)]], device T* dx [[buffer(2)]],
                                  constant SoftmaxBackwardParams& p [[buffer(3)]], uint thread_index [[thread_index_in_threadgroup]],
                                  uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]],
                                  uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  const int last = turns<N>(team, p.columns);
  for (long r = team.index; r < p.rows; r += team.count) {
    device const T *from_y = y + r * p.y_stride, *from_dy = dy + r * p.dy_stride;
    Row<T, N, kLongRow> row_y;
    Row<T, N, kTwoRows> row_dy;
    row_y.take(from_y, team, p.columns);
    row_dy.take(from_dy, team, p.columns);
    float sum = 0;
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> a = row_y.piece(from_y, k, at), b = row_dy.piece(from_dy, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fma(a[i], b[i], sum);
    }
    const float s = team.sum(sum);
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> a = row_y.piece(from_y, k, at), b = row_dy.piece(from_dy, k, at);
      Chunk<T, N> d = {};
#pragma unroll
      for (int i = 0; i < N; ++i) d.set(i, p.scale * a[i] * (b[i] - s));
      put<T, N>(d, dx + r * p.dx_stride, at);
    }
  }
}

#define WEFT_SOFTMAX(suffix, T)                                                                   \
  template [[host_name("softmax_rows" suffix)]] kernel decltype(softmax_rows<T>) softmax_rows<T>; \
  template [[host_name("softmax_rows_backward" suffix)]] kernel decltype(softmax_rows_backward<T>) softmax_rows_backward<T>;
WEFT_SOFTMAX("_f32", float)
WEFT_SOFTMAX("_bf16", bfloat)
