// The parts of the attention kernels: blocks of eight rows whose columns may be split among simdgroups.
//
// A threadgroup has eight simdgroups. Each owns eight rows (queries or keys) and a slice of the head's dimensions, in registers: a slice
// of 64 is eight matrices, sixteen registers a lane. Wider heads take several slices, so the registers of a lane do not grow; scores are
// then partial sums that the slices of a block add up, in order, through threadgroup memory. The other side (a tile of keys and values,
// or of queries and gradients) is staged once for all simdgroups.
#pragma once

#include "weft/tile/metal/heads.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/tile.metal.h"

namespace weft {

constant constexpr int kSimdgroups = 8;
constant constexpr int kPatchRow = 36;          // four matrices side by side, and four floats so that columns spread over banks
constant constexpr int kPatch = 8 * kPatchRow;  // floats of a simdgroup's patch

// Rows of [B, T, H, D] at (b, t, h), from column `column` on: `rows` of them exist.
template <class T>
inline Piece<T> head_rows(device const T* at, HeadStrides strides, int b, int t, int h, int column, int rows, int D, bool aligned) {
  return Piece<T>{at + row_at(strides, b, t, h) + column, strides.time, rows, D - column, aligned};
}

template <int kCount>
inline void clear(thread Matrix (&m)[kCount]) {
  WEFT_UNROLL
  for (int i = 0; i < kCount; ++i) m[i] = filled(0.0f);
}
template <int kCount>
inline void multiply_elements(thread Matrix (&m)[kCount], Matrix by) {
  WEFT_UNROLL
  for (int i = 0; i < kCount; ++i) multiply_elements(m[i], by);
}

// Eight rows of columns [0, 8 count) to matrices, through this simdgroup's patch of threadgroup memory.
template <class T, int kCount>
inline void load_rows(thread Matrix (&to)[kCount], int count, Piece<T> from, threadgroup float* patch, uint lane) {
  WEFT_UNROLL
  for (int first = 0; first < kCount; first += 4) {
    if (first >= count) break;
    stage(patch, kPatchRow, 8, 32, Piece<T>{from.at + 8 * first, from.stride, from.rows, from.columns - 8 * first, from.aligned}, lane, 32);
    metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    WEFT_UNROLL
    for (int f = first; f < first + 4 && f < kCount; ++f) to[f] = matrix_at(patch + 8 * (f - first), kPatchRow);
    metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  }
}

// Stores matrices side by side to eight rows; `rows` by `columns` exist.
template <class T, int kCount>
inline void store_rows(thread Matrix (&from)[kCount], device T* to, int64_t stride, int rows, int columns, threadgroup float* patch,
                       uint lane) {
  WEFT_UNROLL
  for (int first = 0; first < kCount; first += 4) {
    if (8 * first >= columns) break;
    WEFT_UNROLL
    for (int f = first; f < first + 4 && f < kCount; ++f) metal::simdgroup_store(from[f], patch + 8 * (f - first), ulong(kPatchRow));
    metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (int row = 0; row < 8; ++row) {
      const int column = 8 * first + int(lane);
      if (row < rows && column < columns && column < 8 * kCount)
        to[row * stride + column] = from_float<T>(patch[row * kPatchRow + int(lane)]);
    }
    metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  }
}

// Two statistics of each of eight rows, as matrices whose columns are all the same. Every lane has those of row lane / 4.
struct RowPair {
  Matrix first, second;
};
inline RowPair spread_rows(float first, float second, threadgroup float* table, uint lane) {
  for (uint i = 0; i < 2; ++i) {
    table[2 * lane + i] = first;
    table[64 + 2 * lane + i] = second;
  }
  metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  return {matrix_at(table, 8), matrix_at(table + 64, 8)};
}

// scores[j] += rows tile_j^T for blocks j in [first, last) of eight rows of a tile in threadgroup memory, over `count` matrices of columns.
template <int kMatrices, int kBlocks>
inline void add_scores(thread Matrix (&scores)[kBlocks], thread Matrix (&rows)[kMatrices], int count, threadgroup const float* tile,
                       int stride, int first, int last) {
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) {
    if (f >= count) break;
    WEFT_UNROLL
    for (int j = 0; j < kBlocks; ++j)
      if (j >= first && j < last) multiply_add(scores[j], rows[f], transposed_at(tile + 8 * j * stride + 8 * f, stride));
  }
}

// sums += weights rows, eight rows in threadgroup memory, over `count` matrices of columns.
template <int kMatrices>
inline void add_weighted(thread Matrix (&sums)[kMatrices], int count, Matrix weights, threadgroup const float* rows, int stride) {
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) {
    if (f >= count) break;
    multiply_add(sums[f], weights, matrix_at(rows + 8 * f, stride));
  }
}
// The same on the diagonal: weights count only where least <= column - row <= most (multiply_add_inside).
template <int kMatrices>
inline void add_weighted_inside(thread Matrix (&sums)[kMatrices], int count, Matrix weights, threadgroup const float* rows, int stride,
                                Positions at, int least, int most) {
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) {
    if (f >= count) break;
    multiply_add_inside(sums[f], weights, matrix_at(rows + 8 * f, stride), at, float(least), float(most));
  }
}

// column - row - room: above 0 where a causal mask leaves an element out. room: keys ahead of its own number that row 0 attends to.
inline Matrix outside_causal(Positions at, int room) {
  Matrix outside = at.column;
  for (int e = 0; e < 2; ++e) outside.thread_elements()[e] -= at.row.thread_elements()[e] + float(room);
  return outside;
}
// Leaves out elements with column - row < least, or > most, too.
inline void leave_out_below(thread Matrix& outside, Positions at, int least) {
  for (int e = 0; e < 2; ++e) {
    const float ahead = at.column.thread_elements()[e] - at.row.thread_elements()[e];
    outside.thread_elements()[e] = metal::fmax(outside.thread_elements()[e], float(least) - ahead);
  }
}
inline void leave_out_above(thread Matrix& outside, Positions at, int most) {
  for (int e = 0; e < 2; ++e) {
    const float ahead = at.column.thread_elements()[e] - at.row.thread_elements()[e];
    outside.thread_elements()[e] = metal::fmax(outside.thread_elements()[e], ahead - float(most));
  }
}
// Above 0 in columns that are not among the first `columns`.
inline Matrix outside_columns(Positions at, int columns) {
  Matrix outside = at.column;
  for (int e = 0; e < 2; ++e) outside.thread_elements()[e] -= float(columns - 1);
  return outside;
}

// Also masks the first `count` columns.
inline void leave_out_columns(thread Matrix& outside, Positions at, int count) {
  for (int e = 0; e < 2; ++e)
    outside.thread_elements()[e] = metal::fmax(outside.thread_elements()[e], float(count) - at.column.thread_elements()[e]);
}

// Scores become weights exp(score - shift), zero where outside.
inline void scores_to_weights(thread Matrix& s, Matrix shift, Matrix outside) {
  for (int e = 0; e < 2; ++e)
    s.thread_elements()[e] =
        outside.thread_elements()[e] <= 0.0f ? metal::precise::exp(s.thread_elements()[e] - shift.thread_elements()[e]) : 0.0f;
}

// A score with a soft cap; 0 is none.
inline float soft_capped(float score, float cap) { return cap > 0.0f ? cap * metal::precise::tanh(score / cap) : score; }
inline void cap_elements(thread Matrix& scores, float cap) {
  for (int e = 0; e < 2; ++e) scores.thread_elements()[e] = soft_capped(scores.thread_elements()[e], cap);
}

// Scales a block's scores, caps them and stores them side by side, `row` floats to a row. They are scaled here: in the exponent a fused
// step would round the largest score and its maximum differently.
template <int kCount>
inline void store_scaled(thread Matrix (&scores)[kCount], float scale, threadgroup float* to, int row, float cap = 0.0f) {
  WEFT_UNROLL
  for (int i = 0; i < kCount; ++i) {
    scale_elements(scores[i], scale);
    cap_elements(scores[i], cap);
    metal::simdgroup_store(scores[i], to + 8 * i, ulong(row));
  }
}

// Partial sums over the dimensions, to be added up over slices. Between put_parts and add_parts: a barrier of the group.
template <int kCount>
inline void put_parts(thread Matrix (&part)[kCount], threadgroup float* parts, uint simd) {
  WEFT_UNROLL
  for (int i = 0; i < kCount; ++i) metal::simdgroup_store(part[i], parts + (simd * kCount + i) * 64, 8ul);
}
template <int kSlices, int kCount>
inline void add_parts(thread Matrix (&whole)[kCount], threadgroup const float* parts, uint simd) {
  const uint first = simd / kSlices * kSlices;
  WEFT_UNROLL
  for (int i = 0; i < kCount; ++i) {
    whole[i] = matrix_at(parts + (first * kCount + i) * 64, 8);
    for (uint s = 1; s < kSlices; ++s) add_elements(whole[i], matrix_at(parts + ((first + s) * kCount + i) * 64, 8));
  }
}

}  // namespace weft
