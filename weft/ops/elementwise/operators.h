// Arithmetic on tensors: a + b, a - b, a * b, a / b and -a, element by element, each one kernel.
//
//   z = a + b    da = dz        db = dz
//   z = a - b    da = dz        db = -dz
//   z = a * b    da = dz b      db = dz a
//   z = a / b    da = dz / b    db = -dz a / b^2
//
// Shapes broadcast as those of fuse() do (weft/ops/elementwise/elementwise.h): aligned at their last axes, an axis of 1 or a
// missing one repeats. The gradient of a repeated operand is summed over the repeated axes. Operands are f32, bf16 or f16 in any
// mixture; the result has the dtype of the first operand that has the result's shape. A number on either side is an f32 scalar.
// All are differentiable in every tensor.
#pragma once

#include "weft/tensor/tensor.h"

namespace weft {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);

Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

}  // namespace weft
