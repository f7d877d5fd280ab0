// Softmax over keys that are seen tile by tile: the one order of the forward pass, of prompts and of decoding.
//
//   a tile     m' = max(m, its scores), l = l e^(m - m') + sum of p, o = o e^(m - m') + sum of p v, p = e^(s - m'), zero where masked;
//              the sums are matrix multiplications over eight keys each, in order. Tiles begin at multiples of their size from the
//              sequence's first key; the size depends on the head dim alone (64: 32 keys, 128: 16, 256: 8).
//   a segment  kKeySegment keys from the first on, each with its own m, l and o, from nothing
//   a join     m' = max(m, m_s), l = l e^(m - m') + l_s e^(m_s - m'), o likewise; segments in order. The first is taken as it is.
//   the end    o / l, where l is the first column of the matrix of its sums
//
// A tile or segment of which a row sees nothing changes nothing: its p are 0 and its factors 1 and 0, exactly. So a row's bits depend on
// its own query and the keys it sees, not on the rows beside it, nor on which kernel or threadgroup took which segment.
#pragma once

#include "weft/tile/metal/blocks.metal.h"
#include "weft/tile/metal/key_segments.h"

namespace weft {

// The largest of `most` and this lane's quarter of a row: the scores of keys [first, count) of kKeys, each the sum of kSlices blocks
// of eight rows, then capped.
template <int kSlices, int kKeys>
inline float largest_score(float most, threadgroup const float* at, int row, int count, uint lane, int first = 0, float cap = 0.0f) {
  for (int c = int(lane) % 4; c < kKeys; c += 4) {
    float score = at[c];
    for (int slice = 1; slice < kSlices; ++slice) score += at[slice * 8 * row + c];
    if (c >= first && c < count) most = metal::fmax(most, soft_capped(score, cap));
  }
  return most;
}

// The scores of eight keys from column `column` on: the sum of kSlices blocks of eight rows, then capped.
template <int kSlices>
inline Matrix sum_slices(threadgroup const float* slices, int row, int column, float cap = 0.0f) {
  Matrix sum = matrix_at(slices + column, row);
  for (int i = 1; i < kSlices; ++i) add_elements(sum, matrix_at(slices + i * 8 * row + column, row));
  cap_elements(sum, cap);
  return sum;
}

// A segment's o and l are multiplied by these, and then added.
struct JoinFactors {
  float largest, earlier, segment;
};
inline JoinFactors join_factors(float earlier, float segment) {
  const float most = metal::fmax(earlier, segment), shift = most == -INFINITY ? 0.0f : most;
  return {most, metal::precise::exp(earlier - shift), metal::precise::exp(segment - shift)};
}
inline float join_sums(float earlier, float by_earlier, float segment, float by_segment) {
  return metal::fma(segment, by_segment, earlier * by_earlier);
}
inline void join_elements(thread Matrix& earlier, Matrix by_earlier, Matrix segment, Matrix by_segment) {
  for (int e = 0; e < 2; ++e)
    earlier.thread_elements()[e] = join_sums(earlier.thread_elements()[e], by_earlier.thread_elements()[e], segment.thread_elements()[e],
                                             by_segment.thread_elements()[e]);
}

// What eight rows have seen: o, over kMatrices matrices of columns, l in the first column of `total`, and m of the row lane / 4.
template <int kMatrices>
struct Seen {
  Matrix sums[kMatrices], total;
  float largest;
};

template <int kMatrices>
inline void clear(thread Seen<kMatrices>& seen) {
  clear(seen.sums);
  seen.total = filled(0.0f);
  seen.largest = -INFINITY;
}

// The maximum moves to the largest `most` of the row's four lanes, and the sums shrink with it. Returns what is subtracted from scores.
// `table`: 128 floats of this simdgroup's own.
template <int kMatrices>
inline Matrix move_maximum(thread Seen<kMatrices>& seen, float most, threadgroup float* table, uint lane) {
  most = metal::fmax(most, metal::simd_shuffle_xor(most, ushort(1)));
  most = metal::fmax(most, metal::simd_shuffle_xor(most, ushort(2)));
  const float shift = most == -INFINITY ? 0.0f : most;
  const RowPair moved = spread_rows(shift, metal::precise::exp(seen.largest - shift), table, lane);
  seen.largest = most;
  multiply_elements(seen.total, moved.second);
  multiply_elements(seen.sums, moved.second);
  return moved.first;
}

// Joins a segment to those before it; `first`: there are none.
template <int kMatrices>
inline void join(thread Seen<kMatrices>& earlier, thread Seen<kMatrices>& segment, bool first, threadgroup float* table, uint lane) {
  if (first) {
    earlier = segment;
    return;
  }
  const JoinFactors factors = join_factors(earlier.largest, segment.largest);
  const RowPair by = spread_rows(factors.earlier, factors.segment, table, lane);
  earlier.largest = factors.largest;
  join_elements(earlier.total, by.first, segment.total, by.second);
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) join_elements(earlier.sums[f], by.first, segment.sums[f], by.second);
}

// o / l; returns l of the row lane / 4. `patch`, `table`: 64 and 128 floats of this simdgroup's own.
template <int kMatrices>
inline float divide(thread Seen<kMatrices>& seen, threadgroup float* patch, threadgroup float* table, uint lane) {
  metal::simdgroup_store(seen.total, patch, 8ul);
  metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  const float total = patch[lane / 4 * 8];
  const RowPair by = spread_rows(total, total, table, lane);
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) divide_elements(seen.sums[f], by.first);
  return total;
}

}  // namespace weft
