#include <metal_stdlib>

#include "weft/ops/transpose_2d/params.h"

using namespace metal;
using namespace weft;

constant constexpr int kTile = 64, kThreads = 256;

// V elements at once: sixteen bytes.
template <class T, int V>
struct alignas(16) Elements {
  T at[V];
};

// Equation: y[n, m] = x[m, n].
// Layout:   x [B, M, N], y [B, N, M], strides for batch and row, unit stride within a row. T has the element's size.
// Order:    no sums; a threadgroup moves a tile of 64 x 64 through threadgroup memory with rows one word longer, so that
//           the elements of a column lie in different banks.
// Requires: threadgroups of 256 threads; unit stride within rows (the contract's); unaligned rows and edges go element by element.
// Traffic:  one read of x and one write of y, sixteen bytes at a time.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void transpose_tiles(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], constant TransposeParams& p [[buffer(2)]],
                            uint thread_index [[thread_index_in_threadgroup]], uint3 group [[threadgroup_position_in_grid]]) {
  constexpr int V = 16 / int(sizeof(T)), kAcross = kTile / V, kDown = kThreads / kAcross;
  threadgroup T tile[kTile][kTile + 4 / sizeof(T)];
  const long m0 = long(group.y) * kTile, n0 = long(group.x) * kTile;
  const int across = int(thread_index) % kAcross * V, first = int(thread_index) / kAcross;
  device const T* from = x + long(group.z) * p.x_batch;
  for (int m = first; m < kTile && m0 + m < p.M; m += kDown) {
    const long column = n0 + across;
    device const T* row = from + (m0 + m) * p.x_stride + column;
    if (p.aligned && column + V <= p.N) {
      const Elements<T, V> v = *reinterpret_cast<device const Elements<T, V>*>(row);
#pragma unroll
      for (int i = 0; i < V; ++i) tile[m][across + i] = v.at[i];
    } else {
      for (int i = 0; i < V && column + i < p.N; ++i) tile[m][across + i] = row[i];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  device T* to = y + long(group.z) * p.y_batch;
  for (int n = first; n < kTile && n0 + n < p.N; n += kDown) {
    const long column = m0 + across;
    device T* row = to + (n0 + n) * p.y_stride + column;
    if (p.aligned && column + V <= p.M) {
      Elements<T, V> v;
#pragma unroll
      for (int i = 0; i < V; ++i) v.at[i] = tile[across + i][n];
      *reinterpret_cast<device Elements<T, V>*>(row) = v;
    } else {
      for (int i = 0; i < V && column + i < p.M; ++i) row[i] = tile[across + i][n];
    }
  }
}

template [[host_name("transpose_1")]] kernel decltype(transpose_tiles<uchar>) transpose_tiles<uchar>;
template [[host_name("transpose_2")]] kernel decltype(transpose_tiles<ushort>) transpose_tiles<ushort>;
template [[host_name("transpose_4")]] kernel decltype(transpose_tiles<uint>) transpose_tiles<uint>;
