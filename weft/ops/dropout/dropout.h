// Dropout (Srivastava et al., 2014), scaled so that the mean stays:
//
//   y = keep ? x / (1 - p) : 0,   keep = word i >= round(p 2^32)          dx = the same of dy
//
// Words come from a state and a site as in weft/ops/uniform, so no mask is stored: the backward draws them again. It
// therefore must see the same state VALUES: advance the state between training steps, not between a forward and its
// backward. x and y are f32 or bf16.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct DropoutArgs {
  static constexpr const char* kOp = "dropout";
  View x, state;  // y may be x
  uint32_t site;
  float p;  // in [0, 1)
  MutView y;

  static constexpr auto operands() {
    using namespace operand;
    using A = DropoutArgs;
    return std::array{in("x", &A::x, "...", kFloats), in("state", &A::state, "4", DType::u32), out("y", &A::y, "...", like("x"))};
  }
};

void dropout(Stream& stream, const DropoutArgs& args);
inline Cost cost(const DropoutArgs& a) { return {operand_bytes(a), double(a.x.numel())}; }

// Differentiable.
Tensor dropout(const Tensor& x, float p, const Tensor& state, uint32_t site);

}  // namespace weft
