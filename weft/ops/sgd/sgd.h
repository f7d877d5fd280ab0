// Gradient descent with momentum (Polyak, 1964; Nesterov's form: Sutskever et al., 2013), many tensors in one call:
//
//   d = grad grad_scale + wd p        m = mu m + d        p = p - lr (nesterov ? d + mu m : m)
//
// The first m is 0. p is the f32 parameter, or the f32 master copy of a bf16 parameter, which is then p rounded. Without
// momentum (mu = 0) there is no m. lr and grad_scale are device scalars. Each tensor is one fused elementwise launch.
#pragma once

#include <vector>

#include "weft/ops/optimizer_operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Operands of one shape, contiguous.
struct SgdTensor {
  MutView param;
  View grad;
  MutView m;       // absent exactly when momentum is 0
  MutView master;  // present exactly when param is bf16
  float weight_decay;

  static constexpr auto operands() {
    auto list = momentum_operands<SgdTensor>();
    list[2] = list[2].optional();  // m
    return list;
  }
};

struct SgdArgs {
  static constexpr const char* kOp = "sgd";
  std::vector<SgdTensor> tensors;
  View lr, grad_scale;  // grad_scale: such as gradient_norm's clip
  float momentum;       // in [0, 1)
  bool nesterov = false;

  static constexpr auto operands() { return step_operands<SgdArgs>(); }
};

void sgd(Stream& stream, const SgdArgs& args);
Cost cost(const SgdArgs& args);

}  // namespace weft
