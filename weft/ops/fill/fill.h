// Every element becomes one value:
//
//   out[i] = value
//
// Any dtype and any strides. A float rounds to the dtype (by way of f32); an integer must be representable exactly.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct FillArgs {
  static constexpr const char* kOp = "fill";
  MutView out;
  double value;
};

void fill(Stream& stream, const FillArgs& args);
Cost cost(const FillArgs& args);

Tensor zeros(Device& device, const Shape& shape, DType dtype = DType::f32);
Tensor full(Device& device, const Shape& shape, double value, DType dtype = DType::f32);

// In place: x must want no gradient (or NoGrad).
void fill(const Tensor& x, double value);
void zero(const Tensor& x);

}  // namespace weft
