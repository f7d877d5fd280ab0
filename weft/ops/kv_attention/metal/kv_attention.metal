#include <metal_stdlib>

#include "weft/ops/kv_attention/params.h"
#include "weft/tile/metal/blocks.metal.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/online_softmax.metal.h"
#include "weft/tile/metal/pages.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/tile.metal.h"

using namespace metal;

namespace weft {

constant int kMatricesOfD [[function_constant(0)]];  // ceil(D / 8)
constant bool kAligned [[function_constant(1)]];     // q, k, v may be read in fours
constant bool kWhole [[function_constant(2)]];       // a threadgroup has all segments, and writes o
constant bool kParts [[function_constant(3)]];       // it has one, and writes its sums
constant bool kHasWindow [[function_constant(4)]];
constant bool kPaged [[function_constant(5)]];
constant bool kKeepsLse [[function_constant(6)]];
constant bool kWholeLse [[function_constant(7)]];  // kKeepsLse and kWhole

template <class T>
inline Piece<T> cached_rows(device const T* at, HeadStrides strides, PageSizes sizes, device const int* pages, device Fault& fault, int b,
                            int t, int h, int rows, int D) {
  return Piece<T>{at + cached_row_at(kPaged, strides, sizes, pages, fault, b, t, h), strides.time, rows, D, kAligned};
}

// Equation: o = sum over j <= start of exp(s_j - m) v_j / l, s = scale q k^T; or, for one segment of the keys, its m, l and o. A window
//           masks j <= start - window; a soft cap replaces s by cap tanh(s / cap).
// Layout:   q, o [B, 1, H, D], k, v [B, capacity, Hkv, D] or paged, any strides over B, T, H; start [B];
//           partial [B, H, segments, D] and statistics (m, l) [B, H, segments, 2], f32.
// Grid:     (segments; 1 where kWhole, Hkv parts, B) groups of four simdgroups: up to eight heads of one key head are the rows of the
//           matrices. Of a tile of keys each simdgroup has the scores of eight keys (kD = 256: of half of D), then a quarter of o's
//           columns. The order is that of the forward pass (online_softmax.metal.h): the same tiles, segments and slices of D.
// Requires: 128 threads; D <= kD. Threadgroup memory, floats: 2 kKeys (kD + 4) for keys and values, 8 kSlices (kKeys + 4) scores, 512 of
//           tables: 20, 19 and 19 KiB for kD = 64, 128, 256. A start out of range is reported, and nothing written.
// Traffic:  every cached key and value once per eight heads of its group, q once per eight keys of a tile and segment. Every multiply-add
// is
//           part of a matrix multiplication.
template <class T, int kD, int kSlices, int kKeys>
[[max_total_threads_per_threadgroup(128)]]
kernel void attend_cached(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],
                          device const int* start [[buffer(3)]], device T* o [[buffer(4), function_constant(kWhole)]],
                          device float* partial [[buffer(5), function_constant(kParts)]],
                          device float* statistics [[buffer(6), function_constant(kParts)]], constant DecodeParams& p [[buffer(7)]],
                          device Fault& fault [[buffer(8)]], device const int* pages [[buffer(9), function_constant(kPaged)]],
                          device float* lse [[buffer(10), function_constant(kWholeLse)]], uint3 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kGroups = 4, kRow = kD + 4, kBlocks = kKeys / 8, kScore = kKeys + 4;
  constexpr int kSpan = kD / kSlices, kQueryMatrices = kSpan / 8;      // of D in a score
  constexpr int kValues = kD / kGroups, kValueMatrices = kValues / 8;  // columns of o of a simdgroup
  threadgroup float tiles[2 * kKeys * kRow], scores[kSlices * 8 * kScore], tables[kGroups * 128];
  threadgroup float *keys = tiles, *values = tiles + kKeys * kRow, *patch = tiles + simd * kPatch, *table = tables + simd * 128;
  const int b = int(group.z), before = start[b];
  if (before < 0 || before >= p.capacity) {
    if (thread_index == 0 && group.x == 0 && group.y == 0) report(fault, metal_fault::start_out_of_range, before, b, p.capacity - 1);
    return;
  }
  const int parts = (p.group + 7) / 8, hkv = int(group.y) / parts, head = hkv * p.group + int(group.y) % parts * 8,
            heads = min(8, (hkv + 1) * p.group - head);
  const int segment = int(group.x), hidden = kHasWindow ? max(0, before + 1 - p.window) : 0;  // keys before the window
  const int first = max(segment * kKeySegment, hidden / kKeys * kKeys),
            last = kWhole ? before + 1 : min((segment + 1) * kKeySegment, before + 1);
  if (first >= last) return;
  const int row = int(lane) / 4, block = int(simd) / kSlices, slice = int(simd) % kSlices, column = slice * kSpan,
            count = block < kBlocks ? clamp(kMatricesOfD - slice * kQueryMatrices, 0, kQueryMatrices) : 0;
  const int value = int(simd) * kValues, value_count = clamp(kMatricesOfD - int(simd) * kValueMatrices, 0, kValueMatrices);
  Positions at = positions(patch, lane);
  Matrix queries[kQueryMatrices];
  load_rows(queries, count, Piece<T>{q + row_at(p.q, b, 0, head) + column, p.q.head, heads, p.D - column, kAligned}, patch, lane);
  Seen<kValueMatrices> seen, earlier;  // of this segment, of those before it
  clear(seen);
  bool joined = false;

  for (int n0 = first; n0 < last; n0 += kKeys) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (kWhole && n0 > first && n0 % kKeySegment == 0) {
      join(earlier, seen, !joined, table, lane);
      clear(seen);
      joined = true;
    }
    stage(keys, kRow, kKeys, 8 * kMatricesOfD, cached_rows(k, p.k, p.pages, pages, fault, b, n0, hkv, last - n0, p.D), thread_index, 128);
    // Values outside the window are replaced by zeros: their weights are 0, but 0 times NaN or infinity is NaN.
    const int skip = kHasWindow ? clamp(hidden - n0, 0, kKeys) : 0, columns = 8 * kMatricesOfD;
    for (int i = int(thread_index); i < skip * columns; i += 128) values[i / columns * kRow + i % columns] = 0.0f;
    stage(values + skip * kRow, kRow, kKeys - skip, columns,
          cached_rows(v, p.v, p.pages, pages, fault, b, n0 + skip, hkv, last - n0 - skip, p.D), thread_index, 128);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (block < kBlocks) {
      Matrix s[1] = {filled(0.0f)};
      add_scores(s, queries, count, keys + 8 * block * kRow + column, kRow, 0, 1);
      store_scaled(s, p.scale, scores + slice * 8 * kScore + 8 * block, kScore, kSlices > 1 ? 0.0f : p.soft_cap);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const float most = largest_score<kSlices, kKeys>(seen.largest, scores + row * kScore, kScore, last - n0, lane, hidden - n0,
                                                     kSlices > 1 ? p.soft_cap : 0.0f);
    const Matrix shift = move_maximum(seen, most, table, lane);
    WEFT_UNROLL
    for (int j = 0; j < kBlocks; ++j) {
      const int least = hidden - n0 - 8 * j;  // number of these eight keys that the window masks
      if (n0 + 8 * j >= last) break;
      if (kHasWindow && least > 7) continue;
      Matrix weights = sum_slices<kSlices>(scores, kScore, 8 * j, kSlices > 1 ? p.soft_cap : 0.0f);
      Matrix outside = outside_columns(at, last - n0 - 8 * j);
      if (kHasWindow) leave_out_columns(outside, at, least);
      scores_to_weights(weights, shift, outside);
      multiply_add(seen.total, weights, filled(1.0f));
      add_weighted(seen.sums, value_count, weights, values + 8 * j * kRow + value, kRow);
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (kWhole) {
    if (joined) {
      join(earlier, seen, false, table, lane);
      seen = earlier;
    }
    const float total = divide(seen, patch, table, lane);
    if (kWholeLse && simd == 0 && lane % 4 == 0 && row < heads) lse[int64_t(b) * p.H + head + row] = seen.largest + precise::log(total);
    store_rows(seen.sums, o + row_at(p.o, b, 0, head) + value, p.o.head, heads, p.D - value, patch, lane);
    return;
  }
  const int64_t result = (int64_t(b) * p.H + head) * p.segments + segment;
  if (simd == 0) {
    simdgroup_store(seen.total, scores, ulong(kScore));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane % 4 == 0 && row < heads) {
      statistics[(result + int64_t(row) * p.segments) * 2] = seen.largest;
      statistics[(result + int64_t(row) * p.segments) * 2 + 1] = scores[row * kScore];
    }
  }
  store_rows(seen.sums, partial + result * p.D + value, int64_t(p.segments) * p.D, heads, p.D - value, patch, lane);
}

// Equation: o = the segments' sums, joined in order (online_softmax.metal.h), over their joined totals.
// Layout:   partial and statistics as attend_cached leaves them; o [B, 1, H, D].
// Grid:     (H, B) groups; a thread to an element of D. A lane reads the statistics of one segment of 32 and passes them round.
// Requires: 256 threads. A start out of range leaves o alone; attend_cached has reported it.
// Traffic:  one read of the partial results, the statistics once per 32 elements of D, one write of o.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void join_segments(device const float* partial [[buffer(0)]], device const float* statistics [[buffer(1)]],
                          device const int* start [[buffer(2)]], device T* o [[buffer(3)]], constant DecodeParams& p [[buffer(4)]],
                          device float* lse [[buffer(5), function_constant(kKeepsLse)]], uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  const int h = int(group.x), b = int(group.y), before = start[b], index = int(thread_index);
  if (before < 0 || before >= p.capacity || index - int(lane) >= p.D) return;  // whole simdgroups
  const int from = kHasWindow ? max(0, before + 1 - p.window) / kKeySegment : 0, used = before / kKeySegment + 1;
  const int64_t result = (int64_t(b) * p.H + h) * p.segments;
  float largest = 0.0f, total = 0.0f, sum = 0.0f;
  for (int s0 = from; s0 < used; s0 += 32) {
    const bool mine = s0 + int(lane) < used;
    const float m = mine ? statistics[(result + s0 + lane) * 2] : 0.0f, l = mine ? statistics[(result + s0 + lane) * 2 + 1] : 0.0f;
    for (int s = s0; s < min(s0 + 32, used); ++s) {
      const float m_s = simd_shuffle(m, ushort(s - s0)), l_s = simd_shuffle(l, ushort(s - s0)),
                  o_s = index < p.D ? partial[(result + s) * p.D + index] : 0.0f;
      const JoinFactors by = join_factors(largest, m_s);
      total = s == from ? l_s : join_sums(total, by.earlier, l_s, by.segment);
      sum = s == from ? o_s : join_sums(sum, by.earlier, o_s, by.segment);
      largest = s == from ? m_s : by.largest;
    }
  }
  if (index < p.D) o[row_at(p.o, b, 0, h) + index] = from_float<T>(sum / total);
  if (kKeepsLse && index == 0) lse[int64_t(b) * p.H + h] = largest + precise::log(total);
}

template [[host_name("attend_cached_f32_64")]] kernel decltype(attend_cached<float, 64, 1, 32>) attend_cached<float, 64, 1, 32>;
template [[host_name("attend_cached_f32_128")]] kernel decltype(attend_cached<float, 128, 1, 16>) attend_cached<float, 128, 1, 16>;
template [[host_name("attend_cached_f32_256")]] kernel decltype(attend_cached<float, 256, 2, 8>) attend_cached<float, 256, 2, 8>;
template [[host_name("attend_cached_bf16_64")]] kernel decltype(attend_cached<bfloat, 64, 1, 32>) attend_cached<bfloat, 64, 1, 32>;
template [[host_name("attend_cached_bf16_128")]] kernel decltype(attend_cached<bfloat, 128, 1, 16>) attend_cached<bfloat, 128, 1, 16>;
template [[host_name("attend_cached_bf16_256")]] kernel decltype(attend_cached<bfloat, 256, 2, 8>) attend_cached<bfloat, 256, 2, 8>;
template [[host_name("join_segments_f32")]] kernel decltype(join_segments<float>) join_segments<float>;
template [[host_name("join_segments_bf16")]] kernel decltype(join_segments<bfloat>) join_segments<bfloat>;

}  // namespace weft
