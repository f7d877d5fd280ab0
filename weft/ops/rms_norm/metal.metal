#include <metal_stdlib>

#include "weft/ops/rms_norm/params.h"
#include "weft/tile/metal/column_sums.metal.h"

using namespace metal;
using namespace weft;

constant bool kResidual [[function_constant(2)]];  // residual and h, or dh, are there

// Equation: y = h rstd w, rstd = 1 / sqrt(mean(h^2) + eps), h = x (+ residual).
// Layout:   x, residual, h, y [R, C] with a row stride each, w [C], rstd [R].
// Order:    a team of threads per row, striding over the rows; the sum by thread over its chunks, then over the team
//           (team.metal.h).
// Requires: unit stride within a row (the contract's); unaligned rows go element by element.
// Traffic:  one read of each row, one write of each output, w once for each team, or for each row where four chunks a thread do
//           not hold it; rows longer than a team's registers are read twice.
template <class T, class W>
kernel void norm_rows(device const T* x [[buffer(0)]], device const T* residual [[buffer(1)]], device const W* w [[buffer(2)]],
                      device T* h [[buffer(3)]], device T* y [[buffer(4)]], device float* rstd_out [[buffer(5)]],
                      constant RmsNormParams& p [[buffer(6)]], uint thread_index [[thread_index_in_threadgroup]],
                      uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]],
                      uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  Row<W, N> weights;
  weights.take(w, team, p.columns);
  const int last = turns<N>(team, p.columns);
  for (long r = team.index; r < p.rows; r += team.count) {
    device const T* from = x + r * p.x_stride;
    Row<T, N, kLongRow> row;
    row.take(from, team, p.columns);
    float squares = 0;
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      Chunk<T, N> piece = row.piece(from, k, at);
      if (kResidual) {  // the rounded h is what is normalised, so that the backward sees the same values
        const Chunk<T, N> more = get<T, N>(residual + r * p.residual_stride, at);
#pragma unroll
        for (int i = 0; i < N; ++i) piece.set(i, piece[i] + more[i]);
        put<T, N>(piece, h + r * p.h_stride, at);
        if (kChunks > 0) row.held[k] = piece;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) squares = fma(piece[i], piece[i], squares);
    }
    if (kResidual) from = h + r * p.h_stride;  // a thread reads again only what it wrote
    const float total = team.sum(squares), rstd = 1.0f / precise::sqrt((p.columns > 0 ? total / float(p.columns) : 0.0f) + p.eps);
    if (team.rank == 0) rstd_out[r] = rstd;
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      Chunk<T, N> piece = row.piece(from, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) piece.set(i, piece[i] * rstd * weight[i]);
      put<T, N>(piece, y + r * p.y_stride, at);
    }
  }
}

// Equation: dx = rstd (dy w - h rstd^2 s / C) (+ dh), s = sum(dy w h); dw = sum over rows of dy h rstd.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], rstd [R], partial [P, C].
// Order:    team g of P takes rows g, g + P, ...; s as in the forward; dw in two stages (column_sums.metal.h).
// Requires: as the forward; at least P teams; rows that a team holds.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw written and read.
template <class T, class W>
kernel void norm_rows_backward(device const T* dy [[buffer(0)]], device const T* dh [[buffer(1)]], device const T* h [[buffer(2)]],
                               device const W* w [[buffer(3)]], device const float* rstd_in [[buffer(4)]], device T* dx [[buffer(5)]],
                               device float* partials [[buffer(6)]], constant RmsNormBackwardParams& p [[buffer(7)]],
                               uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                               uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  if (team.index >= p.partials) return;  // only whole simdgroups leave: teams of a threadgroup that has several are simdgroups
  device float* partial = partials + team.index * p.columns;
  ColumnSums<N> dw;
  dw.clear();
  Row<W, N> weights;
  weights.take(w, team, p.columns);
  const int last = turns<N>(team, p.columns);
  for (long r = team.index; r < p.rows; r += p.partials) {
    device const T *from_dy = dy + r * p.dy_stride, *from_h = h + r * p.h_stride;
    Row<T, N> row_dy, row_h;
    row_dy.take(from_dy, team, p.columns);
    row_h.take(from_h, team, p.columns);
    const float rstd = simd_broadcast(team.rank % 32 == 0 ? rstd_in[r] : 0.0f, 0);
    float s = 0;
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> g = row_dy.piece(from_dy, k, at), v = row_h.piece(from_h, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) s = fma(g[i] * weight[i], v[i], s);
    }
    const float slope = team.sum(s) * rstd * rstd / float(p.columns);
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> g = row_dy.piece(from_dy, k, at), v = row_h.piece(from_h, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
      Chunk<T, N> other, d = {};
      if (kResidual) other = get<T, N>(dh + r * p.dh_stride, at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dw.add(k, i, g[i] * v[i] * rstd);
        const float own = rstd * fma(-v[i], slope, g[i] * weight[i]);
        d.set(i, kResidual ? own + other[i] : own);
      }
      put<T, N>(d, dx + r * p.dx_stride, at);
    }
  }
  dw.write(partial, team, p.columns);
}

// Equation: slopes = rstd^2 s / C, of the backward.
// Layout:   as there; slopes [R].
// Order:    a team per row; as there.
// Requires: as the forward.
// Traffic:  one read of dy and h, w once for each row.
template <class T, class W>
kernel void row_slopes(device const T* dy [[buffer(0)]], device const T* h [[buffer(1)]], device const W* w [[buffer(2)]],
                       device const float* rstd_in [[buffer(3)]], device float* slopes [[buffer(4)]],
                       constant RmsNormBackwardParams& p [[buffer(5)]], uint thread_index [[thread_index_in_threadgroup]],
                       uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]],
                       uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  for (long r = team.index; r < p.rows; r += team.count) {
    float s = 0;
    for (int k = 0; k < turns<N>(team, p.columns); ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> g = get<T, N>(dy + r * p.dy_stride, at), v = get<T, N>(h + r * p.h_stride, at);
      const Chunk<W, N> weight = get<W, N>(w, at);
#pragma unroll
      for (int i = 0; i < N; ++i) s = fma(g[i] * weight[i], v[i], s);
    }
    const float total = team.sum(s);
    if (team.rank > 0) continue;
    const float rstd = rstd_in[r];
    slopes[r] = total * rstd * rstd / float(p.columns);
  }
}

// Equation: the backward's dx and dw, with the slopes known.
// Layout:   as there; slopes [R], sums [P, C].
// Order:    no sums but dw: a thread has N columns, of rows g, g + P, ... in order.
// Requires: 256 threads; as the forward.
// Traffic:  one read of dy, dh, h, one write of dx; w and a row of sums for each of the P.
template <class T, class W>
[[max_total_threads_per_threadgroup(256)]]
kernel void column_gradients(device const T* dy [[buffer(0)]], device const T* dh [[buffer(1)]], device const T* h [[buffer(2)]],
                             device const W* w [[buffer(3)]], device const float* rstd_in [[buffer(4)]],
                             device const float* slopes [[buffer(5)]], device T* dx [[buffer(6)]], device float* sums [[buffer(7)]],
                             constant RmsNormBackwardParams& p [[buffer(8)]], uint thread_index [[thread_index_in_threadgroup]],
                             uint2 group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const Span at = own_columns<N>(group.x, thread_index, p.columns);
  const Chunk<W, N> weight = get<W, N>(w, at);
  float dw[N] = {};
  for (long r = group.y; r < p.rows; r += p.partials) {
    const float rstd = of_row(rstd_in, r, thread_index), slope = of_row(slopes, r, thread_index);
    const Chunk<T, N> g = get<T, N>(dy + r * p.dy_stride, at), v = get<T, N>(h + r * p.h_stride, at);
    Chunk<T, N> other, d = {};
    if (kResidual) other = get<T, N>(dh + r * p.dh_stride, at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      dw[i] += g[i] * v[i] * rstd;
      const float own = rstd * fma(-v[i], slope, g[i] * weight[i]);
      d.set(i, kResidual ? own + other[i] : own);
    }
    put<T, N>(d, dx + r * p.dx_stride, at);
  }
  for (int i = 0; i < at.count; ++i) sums[long(group.y) * p.columns + at.first + i] = dw[i];
}

#define WEFT_RMS_NORM(suffix, T, W)                                                                                       \
  template [[host_name("norm_rows" suffix)]] kernel decltype(norm_rows<T, W>) norm_rows<T, W>;                            \
  template [[host_name("norm_rows_backward" suffix)]] kernel decltype(norm_rows_backward<T, W>) norm_rows_backward<T, W>; \
  template [[host_name("row_slopes" suffix)]] kernel decltype(row_slopes<T, W>) row_slopes<T, W>;                         \
  template [[host_name("column_gradients" suffix)]] kernel decltype(column_gradients<T, W>) column_gradients<T, W>;
WEFT_RMS_NORM("_f32", float, float)
WEFT_RMS_NORM("_bf16", bfloat, bfloat)
WEFT_RMS_NORM("_bf16_f32", bfloat, float)
