// Multiplication by one number, known to the host, to the device, or as a product of both:
//
//   y = x s,  s = by factor          dx = dy s
//
// x and y are f32 or bf16. factor is a device scalar (a loss scale, a clip factor) and has no gradient.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ScaleArgs {
  static constexpr const char* kOp = "scale";
  View x;       // [..., C]
  View factor;  // one f32; absent: 1
  float by;
  MutView y;  // as x; may be x
};

void scale(Stream& stream, const ScaleArgs& args);
Cost cost(const ScaleArgs& args);

// Differentiable in x.
Tensor scale(const Tensor& x, float by, const Tensor& factor = {});

}  // namespace weft
