// Rows become columns, of one matrix or of each matrix of a batch:
//
//   y[n, m] = x[m, n]          dx = transpose of dy
//
// Any dtype; the bits are moved, not converted.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct Transpose2dArgs {
  static constexpr const char* kOp = "transpose_2d";
  View x;  // of rank 2 or 3
  MutView y;

  static constexpr auto operands() {
    using namespace operand;
    using A = Transpose2dArgs;
    return std::array{in("x", &A::x, "... M N", kAny).columns(), out("y", &A::y, "... N M", like("x")).columns()};
  }
};

void transpose_2d(Stream& stream, const Transpose2dArgs& args);
inline Cost cost(const Transpose2dArgs& a) { return {operand_bytes(a), 0}; }

// The last two axes of x (rank 2 or 3) swapped, in memory of its own. Differentiable.
// (permute() swaps axes without moving anything.)
Tensor transpose_2d(const Tensor& x);

}  // namespace weft
