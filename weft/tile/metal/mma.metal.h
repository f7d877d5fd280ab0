// 8x8 matrices distributed over the lanes of a simdgroup (simdgroup_matrix), in f32.
//
// Which lane holds which element is not documented, and nothing here depends on it. What is used: every lane holds two
// elements (thread_elements), and matrices of one type hold the same positions in the same places. So one matrix can be
// combined element by element with another that was loaded from a table: a row's statistic written eight times, or the position itself.
#pragma once

#include <metal_stdlib>

// An array stays in registers only where the compiler knows every index into it.
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")

namespace weft {

using Matrix = metal::simdgroup_float8x8;

inline Matrix filled(float x) { return metal::make_filled_simdgroup_matrix<float, 8, 8>(x); }

inline Matrix matrix_at(threadgroup const float* from, int stride) {
  Matrix m;
  metal::simdgroup_load(m, from, ulong(stride));
  return m;
}
inline Matrix transposed_at(threadgroup const float* from, int stride) {
  Matrix m;
  metal::simdgroup_load(m, from, ulong(stride), ulong2(0, 0), true);
  return m;
}

// sum += left right
inline void multiply_add(thread Matrix& sum, Matrix left, Matrix right) { metal::simdgroup_multiply_accumulate(sum, left, right, sum); }

inline void multiply_elements(thread Matrix& m, Matrix by) {
  for (int e = 0; e < 2; ++e) m.thread_elements()[e] *= by.thread_elements()[e];
}
inline void scale_elements(thread Matrix& m, float by) {
  for (int e = 0; e < 2; ++e) m.thread_elements()[e] *= by;
}
inline void divide_elements(thread Matrix& m, Matrix by) {
  for (int e = 0; e < 2; ++e) m.thread_elements()[e] /= by.thread_elements()[e];
}
inline void add_elements(thread Matrix& m, Matrix other) {
  for (int e = 0; e < 2; ++e) m.thread_elements()[e] += other.thread_elements()[e];
}

// The row and the column of every element, as numbers. `table`: 64 floats of this simdgroup's own.
struct Positions {
  Matrix row, column;
};
inline Positions positions(threadgroup float* table, uint lane) {
  for (uint i = lane; i < 64; i += 32) table[i] = float(i % 8);
  metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  const Positions p = {transposed_at(table, 8), matrix_at(table, 8)};
  metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup);
  return p;
}

// sum += left right, where an element of `left` counts only if ahead = column - row is at least `least` and at most `most`;
// the others are zero, and what they would multiply is left out even if it is infinite or NaN, which times zero is NaN.
// That is rare, so matrices are multiplied whole while `right` is finite; else one column of left and row of right at a time.
inline void multiply_add_inside(thread Matrix& sum, Matrix left, Matrix right, Positions at, float least, float most) {
  const bool odd = !metal::isfinite(right.thread_elements()[0]) || !metal::isfinite(right.thread_elements()[1]);
  if (!metal::simd_any(odd)) return multiply_add(sum, left, right);
  for (int step = 0; step < 8; ++step) {
    const float j = float(step);
    Matrix column, row, product = filled(0.0f);
    for (int e = 0; e < 2; ++e) {
      column.thread_elements()[e] = at.column.thread_elements()[e] == j ? left.thread_elements()[e] : 0.0f;
      row.thread_elements()[e] = at.row.thread_elements()[e] == j ? right.thread_elements()[e] : 0.0f;
    }
    multiply_add(product, column, row);
    for (int e = 0; e < 2; ++e) {
      const float ahead = j - at.row.thread_elements()[e];
      if (least <= ahead && ahead <= most) sum.thread_elements()[e] += product.thread_elements()[e];
    }
  }
}

}  // namespace weft
