// Adds into memory, and the sum of two tensors made of it:
//
//   dst = dst + src              add: y = a + b,  da = dy, db = dy
//
// Each operand is f32 or bf16 on its own; the sum is computed in f32 and rounded to dst's dtype.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct AddAssignArgs {
  static constexpr const char* kOp = "add_assign";
  MutView dst;  // [..., C]
  View src;     // [..., C]
};

void add_assign(Stream& stream, const AddAssignArgs& args);
Cost cost(const AddAssignArgs& args);

// In place: neither may want a gradient (or NoGrad).
void add_assign(const Tensor& dst, const Tensor& src);

// a + b in a's dtype. Differentiable; each gradient in its operand's dtype.
Tensor add(const Tensor& a, const Tensor& b);

}  // namespace weft
