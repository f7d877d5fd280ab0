// Dropout (Srivastava et al., 2014), scaled so that the mean stays:
//
//   y = keep ? x / (1 - p) : 0,   keep = word i >= round(p 2^32)          dx = the same of dy
//
// Words come from a state and a site as in weft/ops/uniform, so no mask is stored: the backward draws them again. It
// therefore must see the same state VALUES: advance the state between training steps, not between a forward and its
// backward. x and y are f32 or bf16.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct DropoutArgs {
  static constexpr const char* kOp = "dropout";
  View x;      // any shape, contiguous
  View state;  // [4], u32
  uint32_t site;
  float p;    // in [0, 1)
  MutView y;  // as x; may be x
};

void dropout(Stream& stream, const DropoutArgs& args);
Cost cost(const DropoutArgs& args);

// Differentiable.
Tensor dropout(const Tensor& x, float p, const Tensor& state, uint32_t site);

}  // namespace weft
