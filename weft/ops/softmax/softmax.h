// Softmax over the last axis, C = its length:
//
//   y_i = exp(scale x_i - m) / sum_j exp(scale x_j - m),   m = max_j scale x_j
//   dx_i = scale y_i (dy_i - s),                           s = sum_j y_j dy_j
//
// An entry of -infinity gives 0; a row of nothing else (everything masked) is defined as zeros. A NaN or +infinity
// makes its row NaN. x and y are f32 or bf16; the sums are f32.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct SoftmaxArgs {
  static constexpr const char* kOp = "softmax";
  View x;
  MutView y;  // may be the memory of x
  float scale = 1;

  static constexpr auto operands() {
    using namespace operand;
    using A = SoftmaxArgs;
    return std::array{in("x", &A::x, "... C", kFloats).rows(), out("y", &A::y, "... C", like("x")).rows()};
  }
};

struct SoftmaxBackwardArgs {
  static constexpr const char* kOp = "softmax_backward";
  View y, dy;
  MutView dx;  // may be the memory of dy or y
  float scale = 1;

  static constexpr auto operands() {
    using namespace operand;
    using A = SoftmaxBackwardArgs;
    return std::array{in("y", &A::y, "... C", kFloats).rows(), in("dy", &A::dy, "... C", like("y")).rows(),
                      out("dx", &A::dx, "... C", like("y")).rows()};
  }
};

// Checked launches into memory the caller owns.
void softmax(Stream& stream, const SoftmaxArgs& args);
void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args);
// The exponential counts as one operation.
inline Cost cost(const SoftmaxArgs& a) { return {operand_bytes(a), 5.0 * double(a.x.numel())}; }
inline Cost cost(const SoftmaxBackwardArgs& a) { return {operand_bytes(a), 5.0 * double(a.y.numel())}; }

// softmax(scale x) over the last axis.
Tensor softmax(const Tensor& x, float scale = 1);

}  // namespace weft
