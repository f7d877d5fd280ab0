// Every element becomes one value:
//
//   out[i] = value
//
// Any dtype and any strides. A float rounds to the dtype (by way of f32); an integer must be representable exactly.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct FillArgs {
  static constexpr const char* kOp = "fill";
  MutView out;
  double value;

  static constexpr auto operands() { return std::array{operand::out("out", &FillArgs::out, "...", operand::kAny).strided()}; }
};

void fill(Stream& stream, const FillArgs& args);
inline Cost cost(const FillArgs& a) { return {operand_bytes(a), 0}; }

Tensor zeros(Device& device, const Shape& shape, DType dtype = DType::f32);
Tensor full(Device& device, const Shape& shape, double value, DType dtype = DType::f32);

// In place: x must want no gradient (or NoGrad).
void fill(const Tensor& x, double value);
void zero(const Tensor& x);

}  // namespace weft
