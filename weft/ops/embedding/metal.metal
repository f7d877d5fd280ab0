#include <metal_stdlib>

#include "weft/ops/embedding/params.h"
#include "weft/ops/embedding/sort.metal.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

// Equation: y[p] = w[ids[p]].
// Layout:   w [V, C] and y [P, C] with a row stride each, ids [P].
// Order:    no sums; a simdgroup per row.
// Requires: ids in [0, V); others are reported, and their rows not written.
// Traffic:  one read of ids and of each row that an id selects, one write of y.
template <class T, class Id>
[[max_total_threads_per_threadgroup(128)]]
kernel void gather(device const T* w [[buffer(0)]], device const Id* ids [[buffer(1)]], device T* y [[buffer(2)]],
                   constant EmbeddingParams& p [[buffer(3)]], device Fault& fault [[buffer(4)]],
                   uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                   uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  const long position = (long(group) * threads + thread_index) / 32;
  if (position >= p.positions) return;  // whole simdgroups leave
  const int lane = int(thread_index) % 32;
  const long id = long(simd_broadcast(lane == 0 ? ids[position] : Id(0), 0));
  if (id < 0 || id >= p.table) {
    if (lane == 0) report(fault, metal_fault::id_out_of_range, id, position, p.table);
    return;
  }
  for (int c = lane * N; c < p.columns; c += 32 * N) {
    const int count = min(N, p.columns - c);
    store_chunk<T, N>(load_chunk<T, N>(w + id * p.w_stride + c, count, p.aligned), y + position * p.y_stride + c, count, p.aligned);
  }
}

constant constexpr int kWidth = 8, kStrip = 32 * kWidth;  // columns of a lane, of a simdgroup

struct Eight {
  float at[kWidth];
};

// sum over places [k, end), of one segment, of dy for this lane's columns, in order. A simdgroup reads 32 positions at once.
template <class T>
inline Eight sum_places(device const T* dy, device const ushort* order, long k, long end, constant EmbeddingBackwardParams& p, int column,
                        int lane) {
  const long segment = k / p.segment * p.segment;
  Eight sum = {};
  for (long start = k; start < end; start += 32) {
    const ushort mine = start + lane < end ? order[start + lane] : ushort(0);
    for (long at = start; at < end && at < start + 32; ++at) {
      const long position = segment + long(simd_shuffle(mine, ushort(at - start)));
      const Chunk<T, kWidth> row = load_chunk<T, kWidth>(dy + position * p.dy_stride + column, p.columns - column, p.aligned);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum.at[i] += row[i];
    }
  }
  return sum;
}

// Equation: partial[chunk] = sum over its 512 places of dy, where all of them are of one id.
// Layout:   dy [P, C] with a row stride, order [P], chunk_ids [P / 512], partial [P / 512, C].
// Order:    positions ascending; a simdgroup per chunk and strip of 256 columns.
// Requires: segments sorted. Chunks of several ids are left to sum_rows.
// Traffic:  one read of the rows of dy it sums, one write of their partial sums.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void sum_chunks(device const T* dy [[buffer(0)]], device const uint* chunk_ids [[buffer(1)]],
                       device const ushort* order [[buffer(2)]], device float* partial [[buffer(3)]],
                       constant EmbeddingBackwardParams& p [[buffer(4)]], uint thread_index [[thread_index_in_threadgroup]],
                       uint2 threads [[threads_per_threadgroup]], uint2 group [[threadgroup_position_in_grid]]) {
  const long chunk = (long(group.x) * threads.x + thread_index) / 32;
  const int lane = int(thread_index) % 32, column = int(group.y) * kStrip + lane * kWidth;
  if ((chunk + 1) * kChunk > p.positions) return;  // whole simdgroups leave
  const uint id = simd_broadcast(lane == 0 ? chunk_ids[chunk] : 0u, 0);
  if (long(id) >= p.table) return;
  const Eight sum = sum_places<T>(dy, order, chunk * kChunk, (chunk + 1) * kChunk, p, column, lane);
  for (int i = 0; i < kWidth; ++i)
    if (column + i < p.columns) partial[chunk * p.columns + column + i] = sum.at[i];
}

// Adds a run of places of one segment and id to `sum` for this lane's columns; whole chunks come from sum_chunks.
template <class T>
inline void add_run(thread Eight& sum, thread bool& found, device const T* dy, device const ushort* order, device const float* partial,
                    long begin, long end, constant EmbeddingBackwardParams& p, int column, int lane) {
  const int count = min(kWidth, p.columns - column);
  for (long k = begin; k < end;) {
    const long stop = min(end, (k / kChunk + 1) * kChunk);
    Eight part;
    if (stop - k == kChunk) {
      const Chunk<float, kWidth> whole = load_chunk<float, kWidth>(partial + k / kChunk * p.columns + column, count, p.columns % 4 == 0);
      for (int i = 0; i < kWidth; ++i) part.at[i] = whole[i];
    } else {
      part = sum_places<T>(dy, order, k, stop, p, column, lane);
    }
    for (int i = 0; i < kWidth; ++i) sum.at[i] = found ? sum.at[i] + part.at[i] : part.at[i];
    found = true;
    k = stop;
  }
}

constant bool kAccumulate [[function_constant(0)]];  // dw += instead of dw =

// Begin and end of the run of an id in segment `first` + lane.
inline uint2 run_bounds(device const ushort* starts, long first, long segments, long id, long table, int lane) {
  const long at = (first + lane) * (table + 1) + id;
  return first + lane < segments ? uint2(starts[at], starts[at + 1]) : uint2(0);
}

// Equation: dw[i] (+)= sum over p with ids[p] = i of dy[p].
// Layout:   dy [P, C] and dw [V, C] with a row stride each; order [P], starts [segments, V + 1], partial [P / 512, C].
// Order:    the places of i, segment by segment, are cut where places are multiples of 512; whole chunks come from sum_chunks, the
//           others are summed here, positions ascending; all of them in order. A simdgroup per row of dw.
// Requires: segments sorted, sum_chunks run.
// Traffic:  one read of dy and partial, one write of dw (and one read when accumulating; then rows without an occurrence are
//           left alone); four bytes of starts for each segment, two bytes of order a position for each strip of 256 columns.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void sum_rows(device const T* dy [[buffer(0)]], device const ushort* starts [[buffer(1)]], device const ushort* order [[buffer(2)]],
                     device const float* partial [[buffer(3)]], device float* dw [[buffer(4)]],
                     constant EmbeddingBackwardParams& p [[buffer(5)]], uint thread_index [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  const long id = (long(group) * threads + thread_index) / 32, segments = (p.positions + p.segment - 1) / p.segment;
  if (id >= p.table) return;  // whole simdgroups leave
  const int lane = int(thread_index) % 32;
  uint2 bounds = run_bounds(starts, 0, segments, id, p.table, lane);
  for (int strip = 0; strip < p.columns; strip += kStrip) {
    const int column = strip + lane * kWidth, count = min(kWidth, p.columns - column);
    Eight sum = {};
    bool found = false;
    for (long s = 0; s < segments; ++s) {
      if (segments > 32 && s % 32 == 0) bounds = run_bounds(starts, s, segments, id, p.table, lane);
      const long begin = s * p.segment + simd_shuffle(bounds.x, ushort(s % 32)),
                 end = s * p.segment + simd_shuffle(bounds.y, ushort(s % 32));
      add_run<T>(sum, found, dy, order, partial, begin, end, p, column, lane);
    }
    if (kAccumulate && !found) return;
    device float* row = dw + id * p.dw_stride + column;
    Chunk<float, kWidth> result = {};
    if (kAccumulate) result = load_chunk<float, kWidth>(row, count, p.aligned);
    for (int i = 0; i < kWidth; ++i) result.set(i, kAccumulate ? result[i] + sum.at[i] : sum.at[i]);
    store_chunk<float, kWidth>(result, row, count, p.aligned);
  }
}

#define WEFT_GATHER(suffix, T, Id) template [[host_name("gather" suffix)]] kernel decltype(gather<T, Id>) gather<T, Id>;
WEFT_GATHER("_f32_i32", float, int)
WEFT_GATHER("_f32_u32", float, uint)
WEFT_GATHER("_bf16_i32", bfloat, int)
WEFT_GATHER("_bf16_u32", bfloat, uint)
#define WEFT_SORT(suffix, Id, Word) \
  template [[host_name("sort_segments" suffix)]] kernel decltype(sort_segments<Id, Word>) sort_segments<Id, Word>;
WEFT_SORT("_i32_short", int, uint)
WEFT_SORT("_u32_short", uint, uint)
WEFT_SORT("_i32_long", int, ulong)
WEFT_SORT("_u32_long", uint, ulong)
#define WEFT_SUMS(suffix, T)                                                                \
  template [[host_name("sum_chunks" suffix)]] kernel decltype(sum_chunks<T>) sum_chunks<T>; \
  template [[host_name("sum_rows" suffix)]] kernel decltype(sum_rows<T>) sum_rows<T>;
WEFT_SUMS("_f32", float)
WEFT_SUMS("_bf16", bfloat)
