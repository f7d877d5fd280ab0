// Pieces of row-major operands staged in threadgroup memory as f32, zeros past their edges.
//
// bf16 is widened on the way in: exact, the same code for both dtypes, and multiplications are f32 on every chip (bfloat
// matrices need Metal 3.1 and are emulated before the M3). It costs threadgroup bytes, not device bytes.
#pragma once

#include "weft/tile/metal/scalar.metal.h"

namespace weft {

// The first element of a piece, the distance from row to row, and how much of the piece exists.
template <class T>
struct Piece {
  device const T* at;
  int64_t stride;
  int rows, columns;  // zero or less: nothing
  bool aligned;       // whole rows may be read in fours
};

// The `length` threads of which this is number `index` copy rows x columns elements to `to`, rows `to_stride` apart.
// columns and to_stride are multiples of four.
template <class T>
inline void stage(threadgroup float* to, int to_stride, int rows, int columns, Piece<T> from, uint index, uint length) {
  const int fours = columns / 4;
  for (int i = int(index); i < rows * fours; i += int(length)) {
    const int row = i / fours, column = i % fours * 4;
    threadgroup float* out = to + row * to_stride + column;
    device const T* in = from.at + row * from.stride + column;
    if (from.aligned && row < from.rows && column + 4 <= from.columns) {
      const metal::vec<T, 4> four = *(device const metal::vec<T, 4>*)in;
      for (int j = 0; j < 4; ++j) out[j] = to_float(four[j]);
    } else {
      for (int j = 0; j < 4; ++j) out[j] = row < from.rows && column + j < from.columns ? to_float(in[j]) : 0.0f;
    }
  }
}

}  // namespace weft
