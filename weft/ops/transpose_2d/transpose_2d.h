// Rows become columns, of one matrix or of each matrix of a batch:
//
//   y[n, m] = x[m, n]          dx = transpose of dy
//
// Any dtype; the bits are moved, not converted.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct Transpose2dArgs {
  static constexpr const char* kOp = "transpose_2d";
  View x;     // [M, N] or [B, M, N], unit stride along N
  MutView y;  // [N, M] or [B, N, M], unit stride along M
};

void transpose_2d(Stream& stream, const Transpose2dArgs& args);
Cost cost(const Transpose2dArgs& args);

// The last two axes of x (rank 2 or 3) swapped, in memory of its own. Differentiable.
// (permute() swaps axes without moving anything.)
Tensor transpose_2d(const Tensor& x);

}  // namespace weft
