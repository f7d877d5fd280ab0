// A bias added to every row:
//
//   y = x + bias          dx = dy,  dbias = sum over rows of dy
//
// x and y are f32 or bf16; bias has their dtype or f32. dbias is f32.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct BiasAddArgs {
  static constexpr const char* kOp = "bias_add";
  View x;     // [..., C]
  View bias;  // [C]
  MutView y;  // as x; may be x
};

void bias_add(Stream& stream, const BiasAddArgs& args);
Cost cost(const BiasAddArgs& args);

// Differentiable.
Tensor bias_add(const Tensor& x, const Tensor& bias);

}  // namespace weft
