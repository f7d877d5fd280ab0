#include <metal_stdlib>

#include "weft/ops/kv_attention/params.h"
#include "weft/tile/metal/blocks.metal.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/tile.metal.h"

using namespace metal;

namespace weft {

constant int kMatricesOfD [[function_constant(0)]];  // ceil(D / 8)
constant bool kAligned [[function_constant(1)]];     // q, k, v may be read in fours

// Keys in a split of `length`, a multiple of 32, by `length` and the number of splits alone.
inline int split_length(int length, int splits) { return ((length + splits - 1) / splits + 31) / 32 * 32; }

// Equation: per split of the keys, m = max of s_j, l = sum of exp(s_j - m), o = sum of exp(s_j - m) v_j, s = scale q k^T.
// Layout:   q [B, 1, H, D], k, v [B, capacity, Hkv, D] with any strides over B, T, H; start [B]; o [B, H, splits, D] and
//           (m, l) [B, H, splits, 2], f32.
// Grid:     (ceil(splits / simdgroups), Hkv parts, B): a simdgroup to a split, up to eight heads of one key head as the rows of
//           its matrices. Keys ascend in tiles of kKeys with a running maximum.
// Requires: 32 kGroups threads; D <= kD. Threadgroup memory, floats a simdgroup: (8 + kKeys) (kD + 4) for queries and keys or
//           values, 8 (kKeys + 4) scores, 128 of tables: 16, 18 and 17 KiB for kD = 64, 128, 256. A start out of range is
//           reported, and nothing written.
// Traffic:  every cached key and value once per eight heads of its group. Every multiply-add is in a matrix multiplication.
template <class T, int kD, int kKeys, int kGroups>
[[max_total_threads_per_threadgroup(64)]]
kernel void attend_split(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],
                         device const int* start [[buffer(3)]], device float* partial [[buffer(4)]], device float* statistics [[buffer(5)]],
                         constant DecodeParams& p [[buffer(6)]], device Fault& fault [[buffer(7)]],
                         uint3 group [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kRow = kD + 4, kMatrices = kD / 8, kBlocks = kKeys / 8, kScore = kKeys + 4;
  threadgroup float all_queries[kGroups * 8 * kRow], all_tiles[kGroups * kKeys * kRow], all_scores[kGroups * 8 * kScore],
      all_tables[kGroups * 128];
  threadgroup float *queries = all_queries + simd * 8 * kRow, *tile = all_tiles + simd * kKeys * kRow,
                    *scores = all_scores + simd * 8 * kScore, *table = all_tables + simd * 128;
  const int b = int(group.z), before = start[b];
  if (before < 0 || before >= p.capacity) {
    if (simd == 0 && lane == 0 && group.x == 0 && group.y == 0) report(fault, metal_fault::start_out_of_range, before, b, p.capacity - 1);
    return;
  }
  const int length = before + 1;
  const int parts = (p.group + 7) / 8, hkv = int(group.y) / parts, head = hkv * p.group + int(group.y) % parts * 8,
            heads = min(8, (hkv + 1) * p.group - head);
  const int split = int(group.x) * kGroups + int(simd), chunk = split_length(length, p.splits), first = split * chunk,
            last = min(first + chunk, length);
  if (split >= p.splits || first >= last) return;
  const int row = int(lane) / 4;
  stage(queries, kRow, 8, 8 * kMatricesOfD, Piece<T>{q + row_at(p.q, b, 0, head), p.q.head, heads, p.D, kAligned}, lane, 32);
  Positions at = positions(tile, lane);
  Matrix sums[kMatrices], total = filled(0.0f);
  clear(sums);
  float largest = -INFINITY;

  for (int n0 = first; n0 < last; n0 += kKeys) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    stage(tile, kRow, kKeys, 8 * kMatricesOfD, head_rows(k, p.k, b, n0, hkv, 0, last - n0, p.D, kAligned), lane, 32);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    Matrix s[kBlocks];
    clear(s);
    WEFT_UNROLL
    for (int f = 0; f < kMatrices; ++f) {
      if (f >= kMatricesOfD) break;
      WEFT_UNROLL
      for (int j = 0; j < kBlocks; ++j)
        multiply_add(s[j], matrix_at(queries + 8 * f, kRow), transposed_at(tile + 8 * j * kRow + 8 * f, kRow));
    }
    store_scaled(s, p.scale, scores, kScore);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    stage(tile, kRow, kKeys, 8 * kMatricesOfD, head_rows(v, p.v, b, n0, hkv, 0, last - n0, p.D, kAligned), lane, 32);

    const float most = largest_score<1, kKeys>(largest, scores + row * kScore, kScore, last - n0, lane);
    const RowPair moved = move_maximum(largest, most, table, lane);
    multiply_elements(total, moved.second);
    multiply_elements(sums, moved.second);
    WEFT_UNROLL
    for (int j = 0; j < kBlocks; ++j) {
      scores_to_weights(s[j], moved.first, outside_columns(at, last - n0 - 8 * j));
      multiply_add(total, s[j], filled(1.0f));
      add_weighted(sums, kMatricesOfD, s[j], tile + 8 * j * kRow, kRow);
    }
  }

  // Results go through the memory of the scores, eight columns at a time.
  const int64_t result = (int64_t(b) * p.H + head) * p.splits + split;
  simdgroup_store(total, scores, ulong(kScore));
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (lane % 4 == 0 && row < heads) {
    statistics[(result + int64_t(row) * p.splits) * 2] = largest;
    statistics[(result + int64_t(row) * p.splits) * 2 + 1] = scores[row * kScore];
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) {
    if (f >= kMatricesOfD) break;
    simdgroup_store(sums[f], scores, ulong(kScore));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (int i = int(lane); i < 64; i += 32)
      if (i / 8 < heads && 8 * f + i % 8 < p.D)
        partial[(result + int64_t(i / 8) * p.splits) * p.D + 8 * f + i % 8] = scores[i / 8 * kScore + i % 8];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

constant constexpr int kMostSplits = 256;

// Equation: o = sum over splits of exp(m_s - m) o_s / sum over splits of exp(m_s - m) l_s, m = max m_s.
// Layout:   as attend_split leaves it; o [B, 1, H, D].
// Grid:     (H, B) groups; a thread to an element of D, splits in order.
// Requires: 256 threads, at most 256 splits. A start out of range leaves o alone; attend_split has reported it.
// Traffic:  one read of the partial results, one write of o.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void join_splits(device const float* partial [[buffer(0)]], device const float* statistics [[buffer(1)]],
                        device const int* start [[buffer(2)]], device T* o [[buffer(3)]], constant DecodeParams& p [[buffer(4)]],
                        uint2 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float largest[kMostSplits], totals[kMostSplits];
  const int h = int(group.x), b = int(group.y), before = start[b], index = int(thread_index);
  if (before < 0 || before >= p.capacity) return;
  const int length = before + 1, chunk = split_length(length, p.splits), used = (length + chunk - 1) / chunk;
  const int64_t result = (int64_t(b) * p.H + h) * p.splits;
  if (index < used) {
    largest[index] = statistics[(result + index) * 2];
    totals[index] = statistics[(result + index) * 2 + 1];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (index >= p.D) return;
  float top = -INFINITY, total = 0.0f, x = 0.0f;
  for (int s = 0; s < used; ++s) top = fmax(top, largest[s]);
  if (top == -INFINITY) top = 0.0f;
  for (int s = 0; s < used; ++s) {
    const float weight = precise::exp(largest[s] - top);
    total = fma(weight, totals[s], total);
    x = fma(weight, partial[(result + s) * p.D + index], x);
  }
  o[row_at(p.o, b, 0, h) + index] = from_float<T>(x / total);
}

template [[host_name("attend_split_f32_64")]] kernel decltype(attend_split<float, 64, 16, 2>) attend_split<float, 64, 16, 2>;
template [[host_name("attend_split_f32_128")]] kernel decltype(attend_split<float, 128, 8, 2>) attend_split<float, 128, 8, 2>;
template [[host_name("attend_split_f32_256")]] kernel decltype(attend_split<float, 256, 8, 1>) attend_split<float, 256, 8, 1>;
template [[host_name("attend_split_bf16_64")]] kernel decltype(attend_split<bfloat, 64, 16, 2>) attend_split<bfloat, 64, 16, 2>;
template [[host_name("attend_split_bf16_128")]] kernel decltype(attend_split<bfloat, 128, 8, 2>) attend_split<bfloat, 128, 8, 2>;
template [[host_name("attend_split_bf16_256")]] kernel decltype(attend_split<bfloat, 256, 8, 1>) attend_split<bfloat, 256, 8, 1>;
template [[host_name("join_splits_f32")]] kernel decltype(join_splits<float>) join_splits<float>;
template [[host_name("join_splits_bf16")]] kernel decltype(join_splits<bfloat>) join_splits<bfloat>;

}  // namespace weft
