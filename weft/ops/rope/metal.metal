#include <metal_stdlib>

#include "weft/ops/rope/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant bool kStart [[function_constant(0)]];       // start is there
constant bool kNeighbours [[function_constant(1)]];  // pairs are neighbours, not halves
constant bool kAligned [[function_constant(2)]];     // every vector of x, y and the table starts at 16 bytes
constant bool kPositions [[function_constant(3)]];   // each token has a position of its own, and start is absent

// Turns `count` pairs of a row. Pairs that are neighbours lie in one run of 2 N elements, others in two of N.
template <class T, int N>
inline void turn_pairs(device const T* x, device T* y, int k, int pairs, int count, Chunk<float, N> c, Chunk<float, N> s) {
  const int first = kNeighbours ? 2 * k : k, second = kNeighbours ? 2 * k + N : k + pairs;
  const int in_first = kNeighbours ? 2 * count : count, in_second = kNeighbours ? 2 * count - N : count;
  Chunk<T, N> a = load_chunk<T, N>(x + first, in_first, kAligned), b = load_chunk<T, N>(x + second, in_second, kAligned);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int low = 2 * i % N, high = low + 1;  // of a neighbouring pair, in a or b
    const float x1 = kNeighbours ? (2 * i < N ? a[low] : b[low]) : a[i], x2 = kNeighbours ? (2 * i < N ? a[high] : b[high]) : b[i];
    const float y1 = fma(-x2, s[i], x1 * c[i]), y2 = fma(x1, s[i], x2 * c[i]);
    if (!kNeighbours) {
      a.set(i, y1);
      b.set(i, y2);
    } else if (2 * i < N) {
      a.set(low, y1);
      a.set(high, y2);
    } else {
      b.set(low, y1);
      b.set(high, y2);
    }
  }
  store_chunk<T, N>(a, y + first, in_first, kAligned);
  store_chunk<T, N>(b, y + second, in_second, kAligned);
}

constant constexpr int kThreads = 128;

// Position of token t of a sequence, or -1 if the sequence, or the token with a position of its own, leaves the table; the thread that
// `reports` then names it.
inline long position_of(device const int* start_in, device const int* positions_in, long sequence, long t, constant RopeParams& p,
                        device Fault& fault, bool reports) {
  if (kPositions) {
    const long position = positions_in[t];
    if (position >= 0 && position < p.positions) return position;
    if (reports) report(fault, metal_fault::token_position_out_of_range, position, t, p.positions);
    return -1;
  }
  const long start = kStart ? long(start_in[sequence]) : 0;
  if (start >= 0 && start + p.tokens <= p.positions) return start + t;
  if (reports && t == 0) report(fault, metal_fault::position_out_of_range, start < 0 ? start : start + p.tokens - 1, sequence, p.positions);
  return -1;
}

// Equation: (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin) for each pair of the first R elements; y = x for the rest.
// Layout:   x, y [B, T, H, D] with any strides over B, T, H; cos, sin [positions, R / 2]; start [B], [1] or absent; or positions
//           [T].
// Order:    no sums; a threadgroup has p.across columns (params.h) by as many rows at once as threads are left for, and walks
//           over a slice of the rows of its sharers. A column's part of the table is read by one thread and shared.
// Requires: 128 threads. Every position within the table; a sequence, or token with a position of its own, that leaves it is reported
//           and not written. y may be x.
// Traffic:  one read of x and one write of y; the table once for each slice of 64 rows.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void turn(device const T* x [[buffer(0)]], device const float* cos_in [[buffer(1)]], device const float* sin_in [[buffer(2)]],
                 device const int* start_in [[buffer(3)]], device T* y [[buffer(4)]], device const int* positions_in [[buffer(5)]],
                 constant RopeParams& p [[buffer(6)]], device Fault& fault [[buffer(7)]], uint thread_index [[thread_index_in_threadgroup]],
                 uint2 group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup float table[kThreads][2 * N];
  threadgroup bool inside[kThreads];
  const int own = int(thread_index) % p.across, turned = (p.pairs + N - 1) / N;
  const long column = long(group.x) * p.across + own, sharer = column / p.pieces;
  const int piece = int(column - sharer * p.pieces), k = (piece < turned ? piece : piece - turned) * N;
  const int count = min(N, (piece < turned ? p.pairs : p.head_dim - 2 * p.pairs) - k);
  const long b0 = p.shared ? 0 : sharer / p.tokens, t = p.shared ? sharer : sharer - b0 * p.tokens;
  if (int(thread_index) < p.across && column < p.columns) {
    const long position = position_of(start_in, positions_in, b0, t, p, fault, piece == 0 && group.y == 0);
    inside[own] = position >= 0;
    if (inside[own] && piece < turned) {
      const Chunk<float, N> c = load_chunk<float, N>(cos_in + position * p.pairs + k, count, kAligned);
      const Chunk<float, N> s = load_chunk<float, N>(sin_in + position * p.pairs + k, count, kAligned);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        table[own][i] = c[i];
        table[own][N + i] = s[i] * p.sign;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (column >= p.columns || !inside[own]) return;
  Chunk<float, N> c, s;
  if (piece < turned)
#pragma unroll
    for (int i = 0; i < N; ++i) {
      c.set(i, table[own][i]);
      s.set(i, table[own][N + i]);
    }
  const long first = long(group.y) * p.slice, end = min(p.rows, first + p.slice);
  for (long row = first + int(thread_index) / p.across; row < end; row += kThreads / p.across) {
    const long b = b0 + row / p.heads, h = row % p.heads;
    device const T* from = x + b * p.x_batch + t * p.x_time + h * p.x_head;
    device T* to = y + b * p.y_batch + t * p.y_time + h * p.y_head;
    if (piece < turned)
      turn_pairs<T, N>(from, to, k, p.pairs, count, c, s);
    else
      for (int i = 0; i < count; ++i) to[2 * p.pairs + k + i] = from[2 * p.pairs + k + i];
  }
}

template [[host_name("turn_f32")]] kernel decltype(turn<float>) turn<float>;
template [[host_name("turn_bf16")]] kernel decltype(turn<bfloat>) turn<bfloat>;
