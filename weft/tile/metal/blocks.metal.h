// What the attention kernels are made of: blocks of eight rows whose columns may be split among simdgroups.
//
// A threadgroup has eight simdgroups. Each owns eight rows (queries or keys) and a slice of the head's dimensions, in
// registers: a slice of 64 is eight matrices, sixteen registers a lane. Wider heads take several slices, so registers stay
// what they are; products over the dimensions are then parts that the slices of a block add up, in order, through
// threadgroup memory. What the rows meet (a tile of keys and values, or of queries and gradients) is staged once for all.
#pragma once

#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/tile.metal.h"

namespace weft {

constant constexpr int kSimdgroups = 8;
constant constexpr int kPatchRow = 36;          // four matrices side by side; 36 floats apart, so that columns spread over banks
constant constexpr int kPatch = 8 * kPatchRow;  // floats of a simdgroup's patch

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

// Matrices side by side to eight rows, of which `rows` by `columns` are there.
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

// Two statistics of each of eight rows, as matrices whose columns are all alike. Every lane has those of row lane / 4.
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

// Parts of products over the dimensions, to be added up over slices. Between put_parts and add_parts: a barrier of the group.
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
