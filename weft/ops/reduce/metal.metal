#include <metal_stdlib>

#include "weft/ops/reduce/params.h"
#include "weft/tile/metal/reduction.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant bool kTerms [[function_constant(0)]];  // x holds values; else partial results, to be combined as they are

// Equation: y[o, segment] = sum over the segment of term(x[o, i]).
// Layout:   x [outer, n] with a stride between rows, y [outer, segments].
// Order:    a team of threads per segment: thread t takes vectors t, t + size, ..., then over the team (team.metal.h).
// Requires: unit stride within a row (the contract's); segments of whole vectors. n = 0 gives the identity.
// Traffic:  one read of x, one write of y.
template <int K, class T, class Y>
[[max_total_threads_per_threadgroup(256)]]
kernel void along_rows(device const T* x [[buffer(0)]], device Y* y [[buffer(1)]], constant ReduceRowsParams& p [[buffer(2)]],
                       uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                       uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  for (long task = team.index; task < p.tasks; task += team.count) {
    const long row = task / p.segments, first = (task - row * p.segments) * p.segment;
    const int length = int(min(p.segment, p.n - first));
    device const T* from = x + row * p.stride + first;
    float total = Reducing<K>::identity();
    for (int i = team.rank * N; i < length; i += team.size * N) {
      const int count = min(length - i, N);
      const Chunk<T, N> piece = load_chunk<T, N>(from + i, count, p.aligned);
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (j < count) total = Reducing<K>::combine(total, kTerms ? Reducing<K>::term(piece[j]) : piece[j]);
    }
    total = team.reduce<Reducing<K>>(total);
    if (team.rank == 0) y[task] = from_float<Y>(total);
  }
}

// Equation: y[o, chunk, j] = sum over the chunk's i of term(x[o, i, j]).
// Layout:   x [outer, n, inner] with strides for outer and n, y [outer, chunks, inner].
// Order:    a thread per (o, chunk, vector of j): i in order in runs of 16, the runs in order.
// Requires: unit stride in inner (the contract's). n = 0 gives the identity.
// Traffic:  one read of x, one write of y.
template <int K, class T, class Y>
[[max_total_threads_per_threadgroup(128)]]
kernel void across_rows(device const T* x [[buffer(0)]], device Y* y [[buffer(1)]], constant ReduceColumnsParams& p [[buffer(2)]],
                        uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                        uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long index = long(group) * threads + thread_index, o = index / (p.chunks * p.vectors);
  if (o >= p.outer) return;
  const long in_outer = index - o * p.chunks * p.vectors, chunk = in_outer / p.vectors, j = (in_outer - chunk * p.vectors) * N;
  const int count = int(min(p.inner - j, long(N)));
  const int length = int(min(p.length, p.n - chunk * p.length));  // none where rows are used up before the chunks are
  device const T* from = x + o * p.outer_stride + chunk * p.length * p.stride + j;
  float total[N], run[N];
#pragma unroll
  for (int k = 0; k < N; ++k) total[k] = Reducing<K>::identity();
  for (int start = 0; start < length; start += 16) {
#pragma unroll
    for (int k = 0; k < N; ++k) run[k] = Reducing<K>::identity();
    for (int i = start; i < length && i < start + 16; ++i, from += p.stride) {
      const Chunk<T, N> piece = load_chunk<T, N>(from, count, p.aligned);
#pragma unroll
      for (int k = 0; k < N; ++k) run[k] = Reducing<K>::combine(run[k], kTerms ? Reducing<K>::term(piece[k]) : piece[k]);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) total[k] = Reducing<K>::combine(total[k], run[k]);
  }
  device Y* to = y + (o * p.chunks + chunk) * p.inner + j;
  for (int k = 0; k < count; ++k) to[k] = from_float<Y>(total[k]);
}

// Equation: dx[o, i] = dy[o] (sum), 2 x[o, i] dy[o] (sum of squares), dy[o] at the first i with x[o, i] = y[o] (maximum; NaN
//           equals NaN here), else 0.
// Layout:   x, dx [outer, n] with a stride between rows each, y, dy [outer].
// Order:    a team of threads per row, by vectors; the first place of a maximum is the least over the team.
// Requires: unit stride within a row (the contract's).
// Traffic:  one read of x (not for a sum), one write of dx; y and dy by one lane of each simdgroup.
template <int K, class T, class G, class Y>
[[max_total_threads_per_threadgroup(256)]]
kernel void spread_rows(device const T* x [[buffer(0)]], device const Y* y [[buffer(1)]], device const G* dy [[buffer(2)]],
                        device T* dx [[buffer(3)]], constant ReduceBackwardParams& p [[buffer(4)]],
                        uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                        uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  for (long o = team.index; o < p.outer; o += team.count) {
    const bool leads = team.rank % 32 == 0;
    const float g = simd_broadcast(leads ? to_float(dy[o]) : 0.0f, 0);
    device const T* from = x + o * p.x_outer;
    device T* to = dx + o * p.dx_outer;
    const int n = int(p.n);
    uint place = 0xffffffffu;
    if (K == 2) {
      const float most = simd_broadcast(leads ? to_float(y[o]) : 0.0f, 0);
      for (int i = team.rank * N; i < n && place == 0xffffffffu; i += team.size * N) {
        const int count = min(n - i, N);
        const Chunk<T, N> piece = load_chunk<T, N>(from + i, count, p.aligned);
#pragma unroll
        for (int j = N - 1; j >= 0; --j)
          if (j < count && (piece[j] == most || (piece[j] != piece[j] && most != most))) place = uint(i + j);
      }
      place = team.reduce<Min>(place);
    }
    for (int i = team.rank * N; i < n; i += team.size * N) {
      const int count = min(n - i, N);
      Chunk<T, N> piece = {};
      if (K == 1) piece = load_chunk<T, N>(from + i, count, p.aligned);
#pragma unroll
      for (int j = 0; j < N; ++j) piece.set(j, K == 0 ? g : K == 1 ? (piece[j] + piece[j]) * g : place == uint(i + j) ? g : 0.0f);
      store_chunk<T, N>(piece, to + i, count, p.aligned);
    }
  }
}

// Equation: as spread_rows, for each column j of inner.
// Layout:   x, dx [outer, n, inner] with strides for outer and n each, y, dy [outer, inner].
// Order:    a thread per (o, chunk, vector of j), i in order; a maximum has one chunk.
// Requires: unit stride in inner (the contract's).
// Traffic:  one read of x (not for a sum), one write of dx; y and dy once for each chunk.
template <int K, class T, class G, class Y>
[[max_total_threads_per_threadgroup(128)]]
kernel void spread_columns(device const T* x [[buffer(0)]], device const Y* y [[buffer(1)]], device const G* dy [[buffer(2)]],
                           device T* dx [[buffer(3)]], constant ReduceBackwardParams& p [[buffer(4)]],
                           uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                           uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long index = long(group) * threads + thread_index, o = index / (p.chunks * p.vectors);
  if (o >= p.outer) return;
  const long in_outer = index - o * p.chunks * p.vectors, chunk = in_outer / p.vectors, j = (in_outer - chunk * p.vectors) * N;
  const int count = int(min(p.inner - j, long(N)));
  device const T* from = x + o * p.x_outer + chunk * p.length * p.x_stride + j;
  device T* to = dx + o * p.dx_outer + chunk * p.length * p.dx_stride + j;
  const int length = int(min(p.length, p.n - chunk * p.length));
  float g[N], most[N];
  bool given[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    g[k] = k < count ? to_float(dy[o * p.inner + j + k]) : 0.0f;
    most[k] = K == 2 && k < count ? to_float(y[o * p.inner + j + k]) : 0.0f;
    given[k] = false;
  }
  for (int i = 0; i < length; ++i, from += p.x_stride, to += p.dx_stride) {
    Chunk<T, N> piece = {};
    if (K > 0) piece = load_chunk<T, N>(from, count, p.aligned);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float v = piece[k];
      const bool first = K == 2 && !given[k] && (v == most[k] || (v != v && most[k] != most[k]));
      given[k] = given[k] || first;
      piece.set(k, K == 0 ? g[k] : K == 1 ? (v + v) * g[k] : first ? g[k] : 0.0f);
    }
    store_chunk<T, N>(piece, to, count, p.aligned);
  }
}

#define WEFT_REDUCE(kind, K, suffix, T, Y)                                                             \
  template[[host_name("rows_" kind suffix)]] kernel decltype(along_rows<K, T, Y>) along_rows<K, T, Y>; \
  template[[host_name("columns_" kind suffix)]] kernel decltype(across_rows<K, T, Y>) across_rows<K, T, Y>;
#define WEFT_SPREAD(kind, K, suffix, T, G, Y)                                                                         \
  template[[host_name("spread_rows_" kind suffix)]] kernel decltype(spread_rows<K, T, G, Y>) spread_rows<K, T, G, Y>; \
  template[[host_name("spread_columns_" kind suffix)]] kernel decltype(spread_columns<K, T, G, Y>) spread_columns<K, T, G, Y>;
#define WEFT_REDUCE_KIND(kind, K)                             \
  WEFT_REDUCE(kind, K, "_f32_f32", float, float)              \
  WEFT_REDUCE(kind, K, "_f32_bf16", float, bfloat)            \
  WEFT_REDUCE(kind, K, "_bf16_f32", bfloat, float)            \
  WEFT_REDUCE(kind, K, "_bf16_bf16", bfloat, bfloat)          \
  WEFT_SPREAD(kind, K, "_f32_f32_f32", float, float, float)   \
  WEFT_SPREAD(kind, K, "_bf16_f32_f32", bfloat, float, float) \
  WEFT_SPREAD(kind, K, "_bf16_bf16_f32", bfloat, bfloat, float)
#define WEFT_SPREAD_NARROW(kind, K)                             \
  WEFT_SPREAD(kind, K, "_bf16_f32_bf16", bfloat, float, bfloat) \
  WEFT_SPREAD(kind, K, "_bf16_bf16_bf16", bfloat, bfloat, bfloat)
WEFT_REDUCE_KIND("sum", 0)
WEFT_REDUCE_KIND("squares", 1)
WEFT_REDUCE_KIND("max", 2)
WEFT_SPREAD_NARROW("max", 2)
