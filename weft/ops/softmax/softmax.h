// Softmax over the last axis, C = its length:
//
//   y_i = exp(scale x_i - m) / sum_j exp(scale x_j - m),   m = max_j scale x_j
//   dx_i = scale y_i (dy_i - s),                           s = sum_j y_j dy_j
//
// An entry of -infinity gives 0; a row of nothing else (everything masked) is defined as zeros. A NaN or +infinity
// makes its row NaN. x and y are f32 or bf16; the sums are f32.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct SoftmaxArgs {
  static constexpr const char* kOp = "softmax";
  View x;     // [..., C]
  MutView y;  // as x; may be the same memory
  float scale = 1;
};

struct SoftmaxBackwardArgs {
  static constexpr const char* kOp = "softmax_backward";
  View y;      // [..., C]
  View dy;     // as y
  MutView dx;  // as y; may be the same memory as dy (or y)
  float scale = 1;
};

// Checked launches into memory the caller owns.
void softmax(Stream& stream, const SoftmaxArgs& args);
void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args);
Cost cost(const SoftmaxArgs& args);
Cost cost(const SoftmaxBackwardArgs& args);

// softmax(scale x) over the last axis.
Tensor softmax(const Tensor& x, float scale = 1);

}  // namespace weft
