#include <metal_stdlib>

#include "weft/ops/grouped_matmul/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/tile.metal.h"

using namespace metal;
using namespace weft;

constant bool kTransposeB [[function_constant(0)]];
constant bool kBias [[function_constant(1)]];      // there is a bias of c's dtype
constant bool kWideBias [[function_constant(2)]];  // there is a bias of f32

constant constexpr int kSide = 32, kKBlock = 16, kRowK = kKBlock + 4, kRowSide = kSide + 4;
constant constexpr int kTile = kSide * kRowK > kKBlock* kRowSide ? kSide* kRowK : kKBlock* kRowSide;

inline int start_of(device const int* starts, int e, constant GroupedMatmulParams& p) { return clamp(starts[min(e, p.E)], 0, p.P); }

// Reports a fault unless starts ascend from 0 to P. Called by all threads of one threadgroup.
inline void check_starts(device const int* starts, constant GroupedMatmulParams& p, device Fault& fault, uint thread_index) {
  for (int e = int(thread_index); e <= p.E; e += 128) {
    const int value = starts[e], least = e == 0 ? 0 : starts[e - 1], most = e == 0 ? 0 : p.P;
    if (value < least || value > most || (e == p.E && value != p.P)) report(fault, metal_fault::bad_documents, value, e, p.P);
  }
}

// Rows [first, last) of one expert; expert is -1 if there are none.
struct RowTile {
  int expert, first, last;
};

// Tile number `tile`: the rows of each expert are cut into tiles of kSide, starting at its first row.
inline RowTile row_tile(device const int* starts, int tile, constant GroupedMatmulParams& p) {
  for (int e = 0; e < p.E; ++e) {
    const int first = start_of(starts, e, p), last = max(first, start_of(starts, e + 1, p)), own = (last - first + kSide - 1) / kSide;
    if (tile < own) return {e, first + tile * kSide, min(first + (tile + 1) * kSide, last)};
    tile -= own;
  }
  return {-1, 0, 0};
}

// Stores the four 8x8 sums of a simdgroup's quarter to threadgroup memory, one after the other.
inline void put_sums(thread Matrix (&sums)[2][2], threadgroup float* own) {
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) simdgroup_store(sums[i][j], own + (i * 2 + j) * 64, 8ul);
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// Equation: c[i] = a[i] op(b[e]) + bias[e] for the rows i of expert e.
// Layout:   a [P, K] and c [P, N] with a row stride each, b [E, K, N] or [E, N, K], starts [E + 1].
// Grid:     (ceil(N / 32), P / 32 + E) groups of four simdgroups, each with a quarter of the block. k ascends in blocks of 8, one matrix
//           multiplication each, as in matmul; then the bias.
// Requires: 128 threads. Any extents: edges are padded with zeros. Groups beyond the last tile end at once.
// Traffic:  a once per 32 columns, an expert's matrix once per 32 of its rows; c once.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void grouped_multiply(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device const int* starts [[buffer(2)]],
                             device T* c [[buffer(3)]], device const T* bias [[buffer(4), function_constant(kBias)]],
                             device const float* wide_bias [[buffer(5), function_constant(kWideBias)]],
                             constant GroupedMatmulParams& p [[buffer(6)]], device Fault& fault [[buffer(7)]],
                             uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                             uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float left[kSide * kRowK], right[kTile], lines[4 * 256];
  if (group.x == 0 && group.y == 0) check_starts(starts, p, fault, thread_index);
  const RowTile rows = row_tile(starts, int(group.y), p);
  if (rows.expert < 0) return;  // uniform over the group
  const int n0 = int(group.x) * kSide, row = int(simd / 2) * 16, column = int(simd % 2) * 16;
  device const T* matrix = b + long(rows.expert) * p.K * p.N;
  Matrix sums[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) sums[i][j] = filled(0.0f);
  for (int k0 = 0; k0 < p.K; k0 += kKBlock) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage(left, kRowK, kSide, kKBlock,
          Piece<T>{a + rows.first * p.a_stride + k0, p.a_stride, rows.last - rows.first, p.K - k0, p.aligned_a != 0}, thread_index, 128);
    if (kTransposeB)
      stage(right, kRowK, kSide, kKBlock, Piece<T>{matrix + long(n0) * p.K + k0, p.K, p.N - n0, p.K - k0, p.aligned_b != 0}, thread_index,
            128);
    else
      stage(right, kRowSide, kKBlock, kSide, Piece<T>{matrix + long(k0) * p.N + n0, p.N, p.K - k0, p.N - n0, p.aligned_b != 0},
            thread_index, 128);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int k = 0; k < kKBlock && k0 + k < p.K; k += 8) {
      Matrix x[2], y[2];
      for (int i = 0; i < 2; ++i) {
        x[i] = matrix_at(left + (row + 8 * i) * kRowK + k, kRowK);
        y[i] = kTransposeB ? transposed_at(right + (column + 8 * i) * kRowK + k, kRowK)
                           : matrix_at(right + k * kRowSide + column + 8 * i, kRowSide);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) multiply_add(sums[i][j], x[i], y[j]);
    }
  }
  threadgroup float* own = lines + 256 * simd;
  put_sums(sums, own);
  for (int at = int(lane); at < 256; at += 32) {
    const int i = at / 128, j = at / 64 % 2, r = rows.first + row + 8 * i + at % 64 / 8, n = n0 + column + 8 * j + at % 8;
    if (r >= rows.last || n >= p.N) continue;
    float x = own[at];
    if (kBias) x += to_float(bias[long(rows.expert) * p.N + n]);
    if (kWideBias) x += wide_bias[long(rows.expert) * p.N + n];
    c[r * p.c_stride + n] = from_float<T>(x);
  }
}

// Equation: c[e] (+)= sum over the rows i of expert e of a[i]^T b[i].
// Layout:   a [P, M] and b [P, N] with a row stride each, c [E, M, N] f32, starts [E + 1].
// Grid:     (ceil(N / 32), ceil(M / 32), E) groups of four simdgroups, each with a quarter of the block; rows in blocks of 8, one matrix
//           multiplication each from zero, then c.
// Requires: 128 threads. Any extents.
// Traffic:  a and b once per 32 columns of the other; c once, twice when accumulating.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void grouped_weights(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device const int* starts [[buffer(2)]],
                            device float* c [[buffer(3)]], constant GroupedMatmulParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                            uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                            uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float left[kKBlock * kRowSide], right[kKBlock * kRowSide], lines[4 * 256];
  if (group.x == 0 && group.y == 0 && group.z == 0) check_starts(starts, p, fault, thread_index);
  const int expert = int(group.z), m0 = int(group.y) * kSide, n0 = int(group.x) * kSide, M = p.K;
  const int first = start_of(starts, expert, p), last = max(first, start_of(starts, expert + 1, p));
  const int row = int(simd / 2) * 16, column = int(simd % 2) * 16;
  Matrix sums[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) sums[i][j] = filled(0.0f);
  for (int k0 = first; k0 < last; k0 += kKBlock) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage(left, kRowSide, kKBlock, kSide, Piece<T>{a + k0 * p.a_stride + m0, p.a_stride, last - k0, M - m0, p.aligned_a != 0}, thread_index,
          128);
    stage(right, kRowSide, kKBlock, kSide, Piece<T>{b + k0 * p.b_stride + n0, p.b_stride, last - k0, p.N - n0, p.aligned_b != 0},
          thread_index, 128);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int k = 0; k < kKBlock && k0 + k < last; k += 8) {
      Matrix x[2], y[2];
      for (int i = 0; i < 2; ++i) {
        x[i] = transposed_at(left + k * kRowSide + row + 8 * i, kRowSide);
        y[i] = matrix_at(right + k * kRowSide + column + 8 * i, kRowSide);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) multiply_add(sums[i][j], x[i], y[j]);
    }
  }
  threadgroup float* own = lines + 256 * simd;
  put_sums(sums, own);
  for (int at = int(lane); at < 256; at += 32) {
    const int i = at / 128, j = at / 64 % 2, m = m0 + row + 8 * i + at % 64 / 8, n = n0 + column + 8 * j + at % 8;
    if (m >= M || n >= p.N) continue;
    device float& to = c[(long(expert) * M + m) * p.N + n];
    to = p.accumulate != 0 ? to + own[at] : own[at];
  }
}

// Equation: y[e] = sum over the rows i of expert e of x[i].
// Layout:   x [P, N] with a row stride, y [E, N], starts [E + 1].
// Grid:     (ceil(N / 128), E) groups; a thread adds a column, rows ascending.
// Requires: 128 threads.
// Traffic:  one read of x, one write of y.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void sums_of_rows(device const T* x [[buffer(0)]], device const int* starts [[buffer(1)]], device float* y [[buffer(2)]],
                         constant GroupedMatmulParams& p [[buffer(3)]], device Fault& fault [[buffer(4)]],
                         uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
  if (group.x == 0 && group.y == 0) check_starts(starts, p, fault, thread_index);
  const int expert = int(group.y), column = int(group.x) * 128 + int(thread_index);
  if (column >= p.N) return;
  const int last = start_of(starts, expert + 1, p);
  float sum = 0.0f;
  for (int i = start_of(starts, expert, p); i < last; ++i) sum += to_float(x[i * p.a_stride + column]);
  y[long(expert) * p.N + column] = sum;
}

#define WEFT_GROUPED(suffix, T)                                                                               \
  template [[host_name("grouped_multiply" suffix)]] kernel decltype(grouped_multiply<T>) grouped_multiply<T>; \
  template [[host_name("grouped_weights" suffix)]] kernel decltype(grouped_weights<T>) grouped_weights<T>;    \
  template [[host_name("grouped_sums" suffix)]] kernel decltype(sums_of_rows<T>) sums_of_rows<T>;
WEFT_GROUPED("_f32", float)
WEFT_GROUPED("_bf16", bfloat)
