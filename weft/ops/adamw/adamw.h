// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), many tensors in one launch, t = step from 1:
//
//   g = grad grad_scale              p = p - lr wd p
//   m = b1 m + (1 - b1) g            v = b2 v + (1 - b2) g^2
//   p = p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// p is the f32 parameter, or the f32 master copy of a bf16 parameter, which is then p rounded. m and v are f32, grad is
// f32 or bf16. lr, step and grad_scale are device scalars. A step below 1 is a fault and nothing is updated.
#pragma once

#include <vector>

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Operands of one shape, contiguous.
struct AdamwTensor {
  MutView param;
  View grad;
  MutView m, v;
  MutView master;  // present exactly when param is bf16
  float weight_decay;

  static constexpr auto operands() {
    using namespace operand;
    using A = AdamwTensor;
    return std::array{in_out("param", &A::param, "...", kFloats), in("grad", &A::grad, "...", kFloats),
                      in_out("m", &A::m, "...", DType::f32), in_out("v", &A::v, "...", DType::f32),
                      in_out("master", &A::master, "...", DType::f32).optional()};
  }
};

struct AdamwArgs {
  static constexpr const char* kOp = "adamw";
  std::vector<AdamwTensor> tensors;
  View lr;
  View step;        // 1 for the first step
  View grad_scale;  // such as gradient_norm's clip; absent: 1
  // In double: 1 - b2 from a float 0.999 would be off by one part in 10^5.
  double beta1, beta2, eps;

  static constexpr auto operands() {
    using namespace operand;
    using A = AdamwArgs;
    return std::array{in("lr", &A::lr, "1", DType::f32), in("step", &A::step, "1", DType::i32),
                      in("grad_scale", &A::grad_scale, "1", DType::f32).optional()};
  }
};

void adamw(Stream& stream, const AdamwArgs& args);
Cost cost(const AdamwArgs& args);

}  // namespace weft
