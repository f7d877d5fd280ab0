// Lion: the sign of an interpolated momentum (Chen et al., "Symbolic discovery of optimization algorithms", 2023), many
// tensors in one call:
//
//   g = grad grad_scale        c = b1 m + (1 - b1) g        p = p - lr (sign(c) + wd p)        m = b2 m + (1 - b2) g
//
// sign(0) = 0; a NaN in the gradient reaches p and m. p is the f32 parameter, or the f32 master copy of a bf16 parameter,
// which is then p rounded. lr and grad_scale are device scalars. Each tensor is one fused elementwise launch.
#pragma once

#include <vector>

#include "weft/ops/optimizer_operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Operands of one shape, contiguous.
struct LionTensor {
  MutView param;
  View grad;
  MutView m;
  MutView master;  // present exactly when param is bf16
  float weight_decay;

  static constexpr auto operands() { return momentum_operands<LionTensor>(); }
};

struct LionArgs {
  static constexpr const char* kOp = "lion";
  std::vector<LionTensor> tensors;
  View lr, grad_scale;  // grad_scale: such as gradient_norm's clip
  double beta1, beta2;

  static constexpr auto operands() { return step_operands<LionArgs>(); }
};

void lion(Stream& stream, const LionArgs& args);
Cost cost(const LionArgs& args);

}  // namespace weft
