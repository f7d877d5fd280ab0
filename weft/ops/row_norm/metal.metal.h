// The kernels of rms_norm and layer_norm on Metal (row_norm.h). kCentred: layer_norm, with a mean and perhaps a bias; otherwise
// nothing is bound to b, mean and db.
#pragma once

#include <metal_stdlib>

#include "weft/ops/row_norm/params.h"
#include "weft/tile/metal/column_sums.metal.h"

using namespace metal;
using namespace weft;

constant bool kResidual [[function_constant(2)]];  // residual and h, or dh, are there
constant bool kBias [[function_constant(3)]];      // b, or db, is there

// Equation: y = (h - mean) rstd w (+ b), rstd = 1 / sqrt(mean((h - mean)^2) + eps), h = x (+ residual); mean = 0 unless centred.
// Layout:   x, residual, h, y [R, C] with a row stride each, w, b [C], mean, rstd [R].
// Order:    a team of threads per row, striding over the rows; every sum by thread over its chunks, then over the team
//           (team.metal.h).
// Requires: unit stride within a row (the contract's); unaligned rows go element by element.
// Traffic:  one read of each row, one write of each output, w and b once for each team, or for each row where four chunks a thread
//           do not hold them; rows longer than a team's registers are read again for each sum and for y.
template <class T, class W, bool kCentred>
kernel void norm_rows(device const T* x [[buffer(0)]], device const T* residual [[buffer(1)]], device const W* w [[buffer(2)]],
                      device const W* b [[buffer(3)]], device T* h [[buffer(4)]], device T* y [[buffer(5)]],
                      device float* mean_out [[buffer(6)]], device float* rstd_out [[buffer(7)]], constant RowNormParams& p [[buffer(8)]],
                      uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                      uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  Row<W, N> weights, biases;
  weights.take(w, team, p.columns);
  if (kBias) biases.take(b, team, p.columns);
  const int last = turns<N>(team, p.columns);
  const float over_columns = p.columns > 0 ? 1.0f / float(p.columns) : 0.0f;
  for (long r = team.index; r < p.rows; r += team.count) {
    device const T* from = x + r * p.x_stride;
    Row<T, N, kLongRow> row;
    row.take(from, team, p.columns);
    float sum = 0;  // of h where centred, else of h^2
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      Chunk<T, N> piece = row.piece(from, k, at);
      if (kResidual) {  // the rounded h is normalised, so that the backward sees the same values
        const Chunk<T, N> more = get<T, N>(residual + r * p.residual_stride, at);
#pragma unroll
        for (int i = 0; i < N; ++i) piece.set(i, piece[i] + more[i]);
        put<T, N>(piece, h + r * p.h_stride, at);
        if (kChunks > 0) row.held[k] = piece;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum = kCentred ? sum + piece[i] : fma(piece[i], piece[i], sum);
    }
    if (kResidual) from = h + r * p.h_stride;  // a thread reads back only its own writes
    const float total = team.sum(sum);
    float mean = 0, mean_square = p.columns > 0 ? total / float(p.columns) : 0.0f;
    if (kCentred) {
      mean = total * over_columns;
      float squares = 0;
      for (int k = 0; k < last; ++k) {
        const Span at = span<N>(team, k, p.columns);
        if (at.count <= 0) continue;
        const Chunk<T, N> piece = row.piece(from, k, at);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float v = i < at.count ? piece[i] - mean : 0.0f;
          squares = fma(v, v, squares);
        }
      }
      mean_square = team.sum(squares) * over_columns;
    }
    const float rstd = 1.0f / precise::sqrt(mean_square + p.eps);
    if (team.rank == 0) {
      if (kCentred) mean_out[r] = mean;
      rstd_out[r] = rstd;
    }
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      Chunk<T, N> piece = row.piece(from, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
      Chunk<W, N> bias;
      if (kBias) bias = biases.piece(b, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float z = (kCentred ? piece[i] - mean : piece[i]) * rstd;
        piece.set(i, kBias ? fma(z, weight[i], bias[i]) : z * weight[i]);
      }
      put<T, N>(piece, y + r * p.y_stride, at);
    }
  }
}

// One row of the backward: its sums, then the gradients of an element.
template <bool kCentred>
struct NormGradient {
  float mean, rstd, mean_g, projection;

  void add(float dy, float weight, float h, thread float& s1, thread float& s2) const {
    const float g = dy * weight;
    if (kCentred) s1 += g;
    s2 = fma(g, kCentred ? (h - mean) * rstd : h, s2);
  }
  float dx(float dy, float weight, float h) const {
    return kCentred ? rstd * fma(-((h - mean) * rstd), projection, dy * weight - mean_g) : rstd * fma(-h, projection, dy * weight);
  }
  float dw(float dy, float h) const { return kCentred ? dy * ((h - mean) * rstd) : dy * h * rstd; }
};

// Equation: dx = rstd (g - s1 / C - z s2 / C) (+ dh), g = dy w, z = (h - mean) rstd, s1 = sum(g), s2 = sum(g z);
//           dw = sum over rows of dy z, db = sum over rows of dy. Not centred: no mean, no s1, and dx = rstd (g - h p),
//           p = sum(g h) rstd^2 / C.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], mean, rstd [R], partial sums [P, C].
// Order:    team g of P takes rows g, g + P, ...; s1, s2 as in the forward; dw, db in two stages (column_sums.metal.h).
// Requires: as the forward; at least P teams; rows that a team holds.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw and db written and read.
template <class T, class W, bool kCentred>
kernel void norm_rows_backward(device const T* dy [[buffer(0)]], device const T* dh [[buffer(1)]], device const T* h [[buffer(2)]],
                               device const W* w [[buffer(3)]], device const float* mean_in [[buffer(4)]],
                               device const float* rstd_in [[buffer(5)]], device T* dx [[buffer(6)]],
                               device float* dw_partials [[buffer(7)]], device float* db_partials [[buffer(8)]],
                               constant RowNormBackwardParams& p [[buffer(9)]], uint thread_index [[thread_index_in_threadgroup]],
                               uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]],
                               uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  if (team.index >= p.partials) return;  // only whole simdgroups leave: teams of a threadgroup that has several are simdgroups
  device float *dw_partial = dw_partials + team.index * p.columns, *db_partial = kBias ? db_partials + team.index * p.columns : dw_partial;
  ColumnSums<N> dw, db;
  dw.clear();
  if (kBias) db.clear();
  Row<W, N> weights;
  weights.take(w, team, p.columns);
  const int last = turns<N>(team, p.columns);
  const float over_columns = p.columns > 0 ? 1.0f / float(p.columns) : 0.0f;
  for (long r = team.index; r < p.rows; r += p.partials) {
    device const T *from_dy = dy + r * p.dy_stride, *from_h = h + r * p.h_stride;
    Row<T, N> row_dy, row_h;
    row_dy.take(from_dy, team, p.columns);
    row_h.take(from_h, team, p.columns);
    const bool first = team.rank % 32 == 0;
    NormGradient<kCentred> row = {0, 0, 0, 0};
    if (kCentred) row.mean = simd_broadcast(first ? mean_in[r] : 0.0f, 0);
    row.rstd = simd_broadcast(first ? rstd_in[r] : 0.0f, 0);
    float s1 = 0, s2 = 0;
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> d = row_dy.piece(from_dy, k, at), v = row_h.piece(from_h, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
#pragma unroll
      for (int i = 0; i < N; ++i) row.add(d[i], weight[i], v[i], s1, s2);
    }
    if (kCentred) row.mean_g = team.sum(s1) * over_columns;
    const float total = team.sum(s2);
    row.projection = kCentred ? total * over_columns : total * row.rstd * row.rstd / float(p.columns);
    for (int k = 0; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> d = row_dy.piece(from_dy, k, at), v = row_h.piece(from_h, k, at);
      const Chunk<W, N> weight = weights.piece(w, k, at);
      Chunk<T, N> other, result = {};
      if (kResidual) other = get<T, N>(dh + r * p.dh_stride, at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dw.add(k, i, row.dw(d[i], v[i]));
        if (kBias) db.add(k, i, d[i]);
        const float own = row.dx(d[i], weight[i], v[i]);
        result.set(i, kResidual ? own + other[i] : own);
      }
      put<T, N>(result, dx + r * p.dx_stride, at);
    }
  }
  dw.write(dw_partial, team, p.columns);
  if (kBias) db.write(db_partial, team, p.columns);
}

// Equation: mean_g = s1 / C and projection = s2 / C (not centred: p), of the backward.
// Layout:   as there; mean_g, projection [R].
// Order:    a team per row; as there.
// Requires: as the forward.
// Traffic:  one read of dy and h, w once for each row.
template <class T, class W, bool kCentred>
kernel void row_sums(device const T* dy [[buffer(0)]], device const T* h [[buffer(1)]], device const W* w [[buffer(2)]],
                     device const float* mean_in [[buffer(3)]], device const float* rstd_in [[buffer(4)]],
                     device float* mean_g_out [[buffer(5)]], device float* projection_out [[buffer(6)]],
                     constant RowNormBackwardParams& p [[buffer(7)]], uint thread_index [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]],
                     uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  const float over_columns = p.columns > 0 ? 1.0f / float(p.columns) : 0.0f;
  for (long r = team.index; r < p.rows; r += team.count) {
    NormGradient<kCentred> row = {0, 0, 0, 0};
    if (kCentred) {
      row.mean = of_row(mean_in, r, thread_index);
      row.rstd = of_row(rstd_in, r, thread_index);
    }
    float s1 = 0, s2 = 0;
    for (int k = 0; k < turns<N>(team, p.columns); ++k) {
      const Span at = span<N>(team, k, p.columns);
      if (at.count <= 0) continue;
      const Chunk<T, N> d = get<T, N>(dy + r * p.dy_stride, at), v = get<T, N>(h + r * p.h_stride, at);
      const Chunk<W, N> weight = get<W, N>(w, at);
#pragma unroll
      for (int i = 0; i < N; ++i) row.add(d[i], weight[i], v[i], s1, s2);
    }
    const float mean_g = kCentred ? team.sum(s1) * over_columns : 0.0f, total = team.sum(s2);
    if (team.rank > 0) continue;
    if (kCentred) {
      mean_g_out[r] = mean_g;
      projection_out[r] = total * over_columns;
    } else {
      const float rstd = rstd_in[r];
      projection_out[r] = total * rstd * rstd / float(p.columns);
    }
  }
}

// Equation: the backward's dx, dw and db, with mean_g and projection known.
// Layout:   as there; mean_g, projection [R], sums [P, C].
// Order:    no sums but dw, db: a thread has N columns, of rows g, g + P, ... in order.
// Requires: 256 threads; as the forward.
// Traffic:  one read of dy, dh, h, one write of dx; w and a row of each sum for each of the P.
template <class T, class W, bool kCentred>
[[max_total_threads_per_threadgroup(256)]]
kernel void column_gradients(device const T* dy [[buffer(0)]], device const T* dh [[buffer(1)]], device const T* h [[buffer(2)]],
                             device const W* w [[buffer(3)]], device const float* mean_in [[buffer(4)]],
                             device const float* rstd_in [[buffer(5)]], device const float* mean_g_in [[buffer(6)]],
                             device const float* projection_in [[buffer(7)]], device T* dx [[buffer(8)]],
                             device float* dw_sums [[buffer(9)]], device float* db_sums [[buffer(10)]],
                             constant RowNormBackwardParams& p [[buffer(11)]], uint thread_index [[thread_index_in_threadgroup]],
                             uint2 group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const Span at = own_columns<N>(group.x, thread_index, p.columns);
  const Chunk<W, N> weight = get<W, N>(w, at);
  float dw[N] = {}, db[N] = {};
  for (long r = group.y; r < p.rows; r += p.partials) {
    NormGradient<kCentred> row = {0, 0, 0, 0};
    if (kCentred) {
      row.mean = of_row(mean_in, r, thread_index);
      row.mean_g = of_row(mean_g_in, r, thread_index);
    }
    row.rstd = of_row(rstd_in, r, thread_index);
    row.projection = of_row(projection_in, r, thread_index);
    const Chunk<T, N> d = get<T, N>(dy + r * p.dy_stride, at), v = get<T, N>(h + r * p.h_stride, at);
    Chunk<T, N> other, result = {};
    if (kResidual) other = get<T, N>(dh + r * p.dh_stride, at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      dw[i] += row.dw(d[i], v[i]);
      db[i] += d[i];
      const float own = row.dx(d[i], weight[i], v[i]);
      result.set(i, kResidual ? own + other[i] : own);
    }
    put<T, N>(result, dx + r * p.dx_stride, at);
  }
  for (int i = 0; i < at.count; ++i) {
    const long to = long(group.y) * p.columns + at.first + i;
    dw_sums[to] = dw[i];
    if (kBias) db_sums[to] = db[i];
  }
}

#define WEFT_ROW_NORM(suffix, T, W, C)                                                                                          \
  template [[host_name("norm_rows" suffix)]] kernel decltype(norm_rows<T, W, C>) norm_rows<T, W, C>;                            \
  template [[host_name("norm_rows_backward" suffix)]] kernel decltype(norm_rows_backward<T, W, C>) norm_rows_backward<T, W, C>; \
  template [[host_name("row_sums" suffix)]] kernel decltype(row_sums<T, W, C>) row_sums<T, W, C>;                               \
  template [[host_name("column_gradients" suffix)]] kernel decltype(column_gradients<T, W, C>) column_gradients<T, W, C>;
