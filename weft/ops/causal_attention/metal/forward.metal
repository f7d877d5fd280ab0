#include <metal_stdlib>

#include "weft/ops/causal_attention/metal/documents.metal.h"
#include "weft/ops/causal_attention/params.h"
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
constant bool kHasStart [[function_constant(2)]];
constant bool kKeepsLse [[function_constant(3)]];
constant bool kJoins [[function_constant(4)]];  // there may be more keys than a segment has
constant bool kHasDocuments [[function_constant(5)]];
constant bool kHasWindow [[function_constant(6)]];
constant bool kHasSoftCap [[function_constant(7)]];
constant bool kPaged [[function_constant(8)]];  // k and v are paged (weft/ops/kv_pages.h)

// Equation: o_i = sum over j <= before + i of exp(s_ij - m_i) v_j / l_i, s = scale q k^T, m its maximum, l the sum of the
//           exponentials; lse = m + log l. `before` keys come before the first query: start[b], or none. A window leaves out
//           j <= before + i - window; a soft cap makes s cap tanh(s / cap). A document is a sequence of its own: i, j count from its start.
// Layout:   q, o [B, T, H, D], k, v [B, most, Hkv, D] with any strides over B, T, H; lse [B, H, T]; start [B]; documents [n + 1], checked.
// Grid:     (ceil(T / queries) or slots of documents, H, B) groups of eight simdgroups: 64 / kSlices queries. Keys ascend in tiles of kKeys
//           and segments, in the order of online_softmax.metal.h; a score adds its slices of D in order, each a chain over eights.
// Requires: 256 threads; D <= kD. Threadgroup memory, floats: 2 kKeys (kD + 4) for keys and values, 64 (kKeys + 4) scores, 1024
//           of tables: 30, 26 and 23 KiB for kD = 64, 128, 256. A start out of range is reported, and o left alone.
// Traffic:  q, o, lse once; k and v once per 64 / kSlices queries, tiles outside of window and document not at all. Every multiply-add is
//           in a matrix multiplication.
template <class T, int kD, int kSlices, int kKeys>
[[max_total_threads_per_threadgroup(256)]]
kernel void attend(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],
                   device T* o [[buffer(3)]], device float* lse [[buffer(4), function_constant(kKeepsLse)]],
                   device const int* start [[buffer(5), function_constant(kHasStart)]], constant AttentionParams& p [[buffer(6)]],
                   device Fault& fault [[buffer(7)]], device const int* documents [[buffer(8), function_constant(kHasDocuments)]],
                   device const int* pages [[buffer(9), function_constant(kPaged)]], uint3 group [[threadgroup_position_in_grid]],
                   uint3 groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kRow = kD + 4, kSpan = kD / kSlices, kMatrices = kSpan / 8, kQueries = 64 / kSlices, kKeyBlocks = kKeys / 8,
                kScore = kKeys + 4;
  threadgroup float tiles[2 * kKeys * kRow], scores[kSimdgroups * 8 * kScore], tables[kSimdgroups * 128];
  threadgroup float *keys = tiles, *values = tiles + kKeys * kRow, *patch = tiles + simd * kPatch, *table = tables + simd * 128;
  const int b = int(group.z), h = int(group.y), hkv = h / p.group, slot = int(groups.x - 1 - group.x);  // the longest first
  const DocumentTile tile = kHasDocuments ? document_tile(documents, p.documents, kQueries, slot) : DocumentTile{0, p.T, slot * kQueries};
  if (kHasDocuments && tile.at >= tile.tokens) return;
  const int t0 = tile.first, m0 = tile.at, before = kHasStart ? start[b] : 0, end = before + tile.tokens;
  if (kHasStart && (before < 0 || before > p.most - p.T)) {
    if (thread_index == 0 && h == 0 && group.x == 0) report(fault, metal_fault::start_out_of_range, before, b, p.most - p.T);
    return;
  }
  const int slice = int(simd) % kSlices, query = m0 + int(simd) / kSlices * 8, rows = tile.tokens - query, row = int(lane) / 4;
  const int column = slice * kSpan, count = clamp(kMatricesOfD - slice * kMatrices, 0, kMatrices),
            sees = before + query;                          // the first row's last key
  const int hidden = kHasWindow ? sees - p.window + 1 : 0;  // keys before the first row's window
  const float cap = kHasSoftCap ? p.soft_cap : 0.0f;
  threadgroup const float* slices = scores + (int(simd) - slice) * 8 * kScore;  // the scores of this block's slices
  Positions at = positions(patch, lane);
  Matrix queries[kMatrices];
  Seen<kMatrices> seen, earlier;  // of this segment, of those before it
  clear(seen);
  bool joined = false;
  load_rows(queries, count, head_rows(q, p.q, b, t0 + query, h, column, rows, p.D, kAligned), patch, lane);

  const int first = kHasWindow ? max(0, before + m0 - p.window + 1) / kKeys * kKeys : 0;
  for (int n0 = first; n0 < min(end, before + m0 + kQueries); n0 += kKeys) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const bool sees_some = rows > 0 && n0 <= sees + 7 && hidden < n0 + kKeys;
    if (kJoins && sees_some && n0 > 0 && n0 % kKeySegment == 0) {
      join(earlier, seen, !joined, table, lane);
      clear(seen);
      joined = true;
    }
    const Piece<T> k_rows{k + cached_row_at(kPaged, p.k, p.pages, pages, fault, b, t0 + n0, hkv), p.k.time, end - n0, p.D, kAligned},
        v_rows{v + cached_row_at(kPaged, p.v, p.pages, pages, fault, b, t0 + n0, hkv), p.v.time, end - n0, p.D, kAligned};
    stage(keys, kRow, kKeys, 8 * kMatricesOfD, k_rows, thread_index, 256);
    stage(values, kRow, kKeys, 8 * kMatricesOfD, v_rows, thread_index, 256);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Matrix s[kKeyBlocks];
    if (sees_some) {
      clear(s);
      add_scores(s, queries, count, keys + column, kRow, max(0, (hidden - n0) / 8), (sees + 7 - n0) / 8 + 1);
      store_scaled(s, p.scale, scores + simd * 8 * kScore, kScore, kSlices > 1 ? 0.0f : cap);
    }
    if (kSlices > 1)
      threadgroup_barrier(mem_flags::mem_threadgroup);
    else
      simdgroup_barrier(mem_flags::mem_threadgroup);
    if (!sees_some) continue;

    const float most = largest_score<kSlices, kKeys>(seen.largest, slices + row * kScore, kScore, sees + row - n0 + 1, lane,
                                                     kHasWindow ? hidden + row - n0 : 0, kSlices > 1 ? cap : 0.0f);
    const Matrix shift = move_maximum(seen, most, table, lane);
    WEFT_UNROLL
    for (int j = 0; j < kKeyBlocks; ++j) {
      const int room = sees - n0 - 8 * j;                       // keys ahead of its own number that the first row attends to
      const int least = kHasWindow ? hidden - n0 - 8 * j : -8;  // and those before it that a window hides
      if (room < -7) break;
      if (least > 7) continue;
      if (kSlices > 1) s[j] = sum_slices<kSlices>(slices, kScore, 8 * j, cap);
      Matrix outside = outside_causal(at, room);
      if (kHasWindow) leave_out_below(outside, at, least);
      scores_to_weights(s[j], shift, outside);
      multiply_add(seen.total, s[j], filled(1.0f));
      if (room >= 7 && least <= -7)
        add_weighted(seen.sums, count, s[j], values + 8 * j * kRow + column, kRow);
      else
        add_weighted_inside(seen.sums, count, s[j], values + 8 * j * kRow + column, kRow, at, least, room);
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (rows <= 0) return;
  if (kJoins && joined) {
    join(earlier, seen, false, table, lane);
    seen = earlier;
  }
  const float total = divide(seen, patch, table, lane);
  if (kKeepsLse && slice == 0 && lane % 4 == 0 && row < rows)
    lse[(int64_t(b) * p.H + h) * p.T + t0 + query + row] = seen.largest + precise::log(total);
  store_rows(seen.sums, o + row_at(p.o, b, t0 + query, h) + column, p.o.time, rows, p.D - column, patch, lane);
}

template [[host_name("attend_f32_64")]] kernel decltype(attend<float, 64, 1, 32>) attend<float, 64, 1, 32>;
template [[host_name("attend_f32_128")]] kernel decltype(attend<float, 128, 1, 16>) attend<float, 128, 1, 16>;
template [[host_name("attend_f32_256")]] kernel decltype(attend<float, 256, 2, 8>) attend<float, 256, 2, 8>;
template [[host_name("attend_bf16_64")]] kernel decltype(attend<bfloat, 64, 1, 32>) attend<bfloat, 64, 1, 32>;
template [[host_name("attend_bf16_128")]] kernel decltype(attend<bfloat, 128, 1, 16>) attend<bfloat, 128, 1, 16>;
template [[host_name("attend_bf16_256")]] kernel decltype(attend<bfloat, 256, 2, 8>) attend<bfloat, 256, 2, 8>;

}  // namespace weft
