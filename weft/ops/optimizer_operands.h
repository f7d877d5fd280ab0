// Operands that several optimizers share.
#pragma once

#include "weft/ops/operands.h"

namespace weft {

// Of one tensor: T has param, grad, the momentum m and the master copy of a bf16 parameter, all of one shape.
template <class T>
constexpr auto momentum_operands(const char* shape = "...") {
  using namespace operand;
  return std::array{in_out("param", &T::param, shape, kFloats), in("grad", &T::grad, shape, kFloats), in_out("m", &T::m, shape, DType::f32),
                    in_out("master", &T::master, shape, DType::f32).optional()};
}

// Of a step: the device scalars lr and grad_scale.
template <class Args>
constexpr auto step_operands() {
  return std::array{operand::in("lr", &Args::lr, "1", DType::f32), operand::in("grad_scale", &Args::grad_scale, "1", DType::f32)};
}

}  // namespace weft
