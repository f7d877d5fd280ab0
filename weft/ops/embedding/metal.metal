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
// Traffic:  one read of ids and of each row asked for, one write of y.
template <class T, class Id>
kernel void gather(device const T* w [[buffer(0)]], device const Id* ids [[buffer(1)]], device T* y [[buffer(2)]], constant EmbeddingParams& p [[buffer(3)]],
                   device Fault& fault [[buffer(4)]], uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
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

// Equation: keys[p] = ids[p], V where it is out of range (sorted last and left out); positions[p] = p.
// Layout:   all [P]. Order: no sums; one to a thread.
// Requires: fewer than 2^31 positions and rows of the table (the launcher's). An id outside [0, V) is reported.
// Traffic:  one read of ids, one write of keys and positions.
template <class Id>
kernel void prepare(device const Id* ids [[buffer(0)]], device uint* keys [[buffer(1)]], device uint* positions [[buffer(2)]],
                    constant EmbeddingBackwardParams& p [[buffer(3)]], device Fault& fault [[buffer(4)]], uint thread_index [[thread_index_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  const long position = long(group) * threads + thread_index;
  if (position >= p.positions) return;
  const long id = long(ids[position]);
  const bool inside = id >= 0 && id < p.table;
  if (!inside) report(fault, metal_fault::id_out_of_range, id, position, p.table);
  keys[position] = inside ? uint(id) : uint(p.table);
  positions[position] = uint(position);
}

constant constexpr long kChunk = 256;                  // sorted places that are summed in one go
constant constexpr int kWidth = 8, kStrip = 32 * kWidth;  // columns of a lane, of a simdgroup

struct Eight {
  float at[kWidth];
};

// sum over places [k, end) of dy[positions[place]] for this lane's columns, in order. A simdgroup reads 32 positions at once.
template <class T>
inline Eight sum_places(device const T* dy, device const uint* positions, long k, long end, constant EmbeddingBackwardParams& p, int column, int lane) {
  Eight sum = {};
  for (long start = k; start < end; start += 32) {
    const uint mine = start + lane < end ? positions[start + lane] : 0;
    for (long at = start; at < end && at < start + 32; ++at) {
      const long position = long(simd_shuffle(mine, ushort(at - start)));
      const Chunk<T, kWidth> row = load_chunk<T, kWidth>(dy + position * p.dy_stride + column, p.columns - column, p.aligned);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum.at[i] += row[i];
    }
  }
  return sum;
}

// Equation: partial[chunk] = sum over its 256 places of dy, where all of them are of one id.
// Layout:   dy [P, C] with a row stride, sorted keys and positions [P], partial [P / 256, C].
// Order:    positions ascending; a simdgroup per chunk and strip of 256 columns.
// Requires: keys sorted. Chunks of several ids are left to sum_rows.
// Traffic:  one read of the rows of dy it sums, one write of their partial sums.
template <class T>
kernel void sum_chunks(device const T* dy [[buffer(0)]], device const uint* keys [[buffer(1)]], device const uint* positions [[buffer(2)]],
                       device float* partial [[buffer(3)]], constant EmbeddingBackwardParams& p [[buffer(4)]], uint thread_index [[thread_index_in_threadgroup]],
                       uint2 threads [[threads_per_threadgroup]], uint2 group [[threadgroup_position_in_grid]]) {
  const long first = (long(group.x) * threads.x + thread_index) / 32 * kChunk;
  const int lane = int(thread_index) % 32, column = int(group.y) * kStrip + lane * kWidth;
  if (first + kChunk > p.positions) return;  // whole simdgroups leave
  const uint mine = lane < 2 ? keys[lane == 0 ? first : first + kChunk - 1] : 0;
  const uint key = simd_broadcast(mine, 0), last = simd_broadcast(mine, 1);
  if (key != last || long(key) >= p.table) return;
  const Eight sum = sum_places<T>(dy, positions, first, first + kChunk, p, column, lane);
  for (int i = 0; i < kWidth; ++i)
    if (column + i < p.columns) partial[first / kChunk * p.columns + column + i] = sum.at[i];
}

// The first place whose key is not below `key`, by bisection.
inline long lower_bound(device const uint* keys, long count, uint key) {
  long low = 0, high = count;
  while (low < high) {
    const long middle = (low + high) / 2;
    if (keys[middle] < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

constant bool kAccumulate [[function_constant(0)]];  // dw += instead of dw =

// The sum over a run of places for this lane's columns, into a row of dw.
template <class T>
inline void sum_run(device const T* dy, device const uint* positions, device const float* partial, device float* dw, long begin, long end,
                    constant EmbeddingBackwardParams& p, int column, int lane) {
  const int count = min(kWidth, p.columns - column);
  Eight sum = {};
  for (long k = begin; k < end;) {
    const long stop = min(end, (k / kChunk + 1) * kChunk);
    Eight part;
    if (stop - k == kChunk) {
      const Chunk<float, kWidth> whole = load_chunk<float, kWidth>(partial + k / kChunk * p.columns + column, count, p.columns % 4 == 0);
      for (int i = 0; i < kWidth; ++i) part.at[i] = whole[i];
    } else {
      part = sum_places<T>(dy, positions, k, stop, p, column, lane);
    }
    for (int i = 0; i < kWidth; ++i) sum.at[i] = k == begin ? part.at[i] : sum.at[i] + part.at[i];
    k = stop;
  }
  Chunk<float, kWidth> result = {};
  if (kAccumulate) result = load_chunk<float, kWidth>(dw + column, count, p.aligned);
  for (int i = 0; i < kWidth; ++i) result.set(i, kAccumulate ? result[i] + sum.at[i] : sum.at[i]);
  store_chunk<float, kWidth>(result, dw + column, count, p.aligned);
}

constant constexpr int kRows = 4;  // of dw to a simdgroup

// Equation: dw[i] (+)= sum over p with ids[p] = i of dy[p].
// Layout:   dy [P, C] and dw [V, C] with a row stride each; sorted keys and positions [P]; partial [P / 256, C].
// Order:    the run of places of i is cut where places are multiples of 256; whole chunks come from sum_chunks, the others are
//           summed here, positions ascending; chunks in order. A simdgroup per four rows of dw.
// Requires: keys sorted, sum_chunks run.
// Traffic:  one read of dy and partial, one write of dw (and one read when accumulating; then rows without an occurrence are
//           left alone); five lanes look for where the four runs begin and end, in log2 P steps.
template <class T>
kernel void sum_rows(device const T* dy [[buffer(0)]], device const uint* keys [[buffer(1)]], device const uint* positions [[buffer(2)]],
                     device const float* partial [[buffer(3)]], device float* dw [[buffer(4)]], constant EmbeddingBackwardParams& p [[buffer(5)]],
                     uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  const long first = (long(group) * threads + thread_index) / 32 * kRows;
  if (first >= p.table) return;  // whole simdgroups leave
  const int lane = int(thread_index) % 32;
  const uint bound = lane <= kRows ? uint(lower_bound(keys, p.positions, uint(first) + uint(lane))) : 0;
  for (int i = 0; i < kRows && first + i < p.table; ++i) {
    const long begin = simd_shuffle(bound, ushort(i)), end = simd_shuffle(bound, ushort(i + 1));
    if (kAccumulate && begin == end) continue;
    for (int strip = 0; strip < p.columns; strip += kStrip)
      sum_run<T>(dy, positions, partial, dw + (first + i) * p.dw_stride, begin, end, p, strip + lane * kWidth, lane);
  }
}

#define WEFT_GATHER(suffix, T, Id) template [[host_name("gather" suffix)]] kernel decltype(gather<T, Id>) gather<T, Id>;
WEFT_GATHER("_f32_i32", float, int)
WEFT_GATHER("_f32_u32", float, uint)
WEFT_GATHER("_bf16_i32", bfloat, int)
WEFT_GATHER("_bf16_u32", bfloat, uint)
template [[host_name("prepare_i32")]] kernel decltype(prepare<int>) prepare<int>;
template [[host_name("prepare_u32")]] kernel decltype(prepare<uint>) prepare<uint>;
#define WEFT_SUMS(suffix, T)                                                                \
  template [[host_name("sum_chunks" suffix)]] kernel decltype(sum_chunks<T>) sum_chunks<T>; \
  template [[host_name("sum_rows" suffix)]] kernel decltype(sum_rows<T>) sum_rows<T>;
WEFT_SUMS("_f32", float)
WEFT_SUMS("_bf16", bfloat)
