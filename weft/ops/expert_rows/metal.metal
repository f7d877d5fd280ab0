#include <metal_stdlib>

#include "weft/ops/expert_rows/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/team.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant bool kWeighted [[function_constant(0)]];

// The place at i; if it is out of range, lane 0 reports a fault and it is read as 0.
inline long place_at(device const int* places, long i, constant ExpertRowsParams& p, device Fault& fault, int lane) {
  const long place = places[i];
  if (place >= 0 && place < p.rows) return place;
  if (lane == 0) report(fault, metal_fault::id_out_of_range, place, i, p.rows);
  return 0;
}

// Equation: y[i] = w[p] x[p / k], p = rows[i].
// Layout:   x [T, C] and y [P, C] with a row stride each, rows [P], w [P] or none.
// Order:    no sums; a simdgroup per row.
// Requires: 128 threads; rows in [0, P); any other is reported and read as 0.
// Traffic:  one read of rows and w, one write of y; each row of x k times, mostly from cache.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void gather_rows(device const T* x [[buffer(0)]], device const int* rows [[buffer(1)]],
                        device const float* weights [[buffer(2), function_constant(kWeighted)]], device T* y [[buffer(3)]],
                        constant ExpertRowsParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                        uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long i = long(group) * 4 + thread_index / 32;
  const int lane = int(thread_index) % 32;
  if (i >= p.rows) return;  // whole simdgroups leave
  const long from = place_at(rows, i, p, fault, lane);
  const float w = kWeighted ? weights[from] : 1.0f;
  for (int c = lane * N; c < p.columns; c += 32 * N) {
    const int count = min(N, p.columns - c);
    Chunk<T, N> piece = load_chunk<T, N>(x + from / p.each * p.x_stride + c, count, p.aligned);
    if (kWeighted)
      for (int e = 0; e < N; ++e) piece.set(e, piece[e] * w);
    store_chunk<T, N>(piece, y + i * p.y_stride + c, count, p.aligned);
  }
}

// Equation: y[t] = sum over j of w[t, j] x[places[t, j]].
// Layout:   x [P, C] and y [T, C] with a row stride each, places [T, k], w [T, k] or none.
// Order:    a simdgroup per token; j ascending, one fma each, from 0.
// Requires: 128 threads; places in [0, P); any other is reported and read as 0.
// Traffic:  one read of x, places and w, one write of y.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void sum_rows(device const T* x [[buffer(0)]], device const int* places [[buffer(1)]],
                     device const float* weights [[buffer(2), function_constant(kWeighted)]], device T* y [[buffer(3)]],
                     constant ExpertRowsParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                     uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long t = long(group) * 4 + thread_index / 32;
  const int lane = int(thread_index) % 32;
  if (t >= p.tokens) return;  // whole simdgroups leave
  for (int c = lane * N; c < p.columns; c += 32 * N) {
    const int count = min(N, p.columns - c);
    float sum[N];
    for (int e = 0; e < N; ++e) sum[e] = 0.0f;
    for (int j = 0; j < p.each; ++j) {
      const long from = place_at(places, t * p.each + j, p, fault, lane);
      const float w = kWeighted ? weights[t * p.each + j] : 1.0f;
      const Chunk<T, N> piece = load_chunk<T, N>(x + from * p.x_stride + c, count, p.aligned);
      for (int e = 0; e < N; ++e) sum[e] = fma(w, piece[e], sum[e]);
    }
    Chunk<T, N> out = {};
    for (int e = 0; e < N; ++e) out.set(e, sum[e]);
    store_chunk<T, N>(out, y + t * p.y_stride + c, count, p.aligned);
  }
}

// Equation: d[t, j] = sum over c of dy[t, c] x[places[t, j], c].
// Layout:   dy [T, C] and x [P, C] with a row stride each, places and d [T, k].
// Order:    a simdgroup per row; lane l adds chunks l, l + 32, ... of 16 bytes in order, then a butterfly over the lanes.
// Requires: 128 threads; places in [0, P); any other is reported and read as 0.
// Traffic:  one read of x and places, one write of d; dy k times, mostly from cache.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void dots_of_rows(device const T* dy [[buffer(0)]], device const T* x [[buffer(1)]], device const int* places [[buffer(2)]],
                         device float* dots [[buffer(3)]], constant ExpertRowsParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                         uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long i = long(group) * 4 + thread_index / 32;
  const int lane = int(thread_index) % 32;
  if (i >= p.rows) return;  // whole simdgroups leave
  const long from = place_at(places, i, p, fault, lane);
  float sum = 0.0f;
  for (int c = lane * N; c < p.columns; c += 32 * N) {
    const int count = min(N, p.columns - c);
    const Chunk<T, N> g = load_chunk<T, N>(dy + i / p.each * p.y_stride + c, count, p.aligned);
    const Chunk<T, N> v = load_chunk<T, N>(x + from * p.x_stride + c, count, p.aligned);
    for (int e = 0; e < count; ++e) sum = fma(g[e], v[e], sum);
  }
  sum = simd_reduce<Sum>(sum, uint(lane));
  if (lane == 0) dots[i] = sum;
}

#define WEFT_EXPERT_ROWS(suffix, T)                                                            \
  template [[host_name("gather_rows" suffix)]] kernel decltype(gather_rows<T>) gather_rows<T>; \
  template [[host_name("sum_rows" suffix)]] kernel decltype(sum_rows<T>) sum_rows<T>;          \
  template [[host_name("dots_of_rows" suffix)]] kernel decltype(dots_of_rows<T>) dots_of_rows<T>;
WEFT_EXPERT_ROWS("_f32", float)
WEFT_EXPERT_ROWS("_bf16", bfloat)
