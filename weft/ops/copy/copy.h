// Copies between tensors of one shape and any strides, casting on the way:
//
//   to[i] = cast(from[i])
//
// Casts go among f32, bf16 and f16: to nearest even, NaN stays NaN, a value too large for f16 or bf16 becomes an
// infinity. i32, u32 and u8 copy to themselves. `from` may repeat elements (stride 0); `to` may not, and the two must
// not overlap.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct CopyArgs {
  static constexpr const char* kOp = "copy";
  View from;
  MutView to;

  static constexpr auto operands() {
    using namespace operand;
    return std::array{in("from", &CopyArgs::from, "...", kAny).strided(), out("to", &CopyArgs::to, "...", kAny).strided()};
  }
};

void copy(Stream& stream, const CopyArgs& args);
inline Cost cost(const CopyArgs& a) { return {operand_bytes(a), 0}; }

// Writes `from` into `to`, often a part() of a larger tensor. Writing over values is not differentiable: both must
// want no gradient (or NoGrad).
void copy(const Tensor& from, const Tensor& to);

// x itself when it is contiguous, else a contiguous copy. Differentiable.
Tensor contiguous(const Tensor& x);

// x as another float type; x itself when it has that type already. Differentiable: the gradient is cast back.
Tensor cast(const Tensor& x, DType dtype);

// [start, stop) along `axis`, a view of the same memory. Differentiable: dx is zero but for that part, which is dy.
Tensor slice(const Tensor& x, int axis, int64_t start, int64_t stop);

}  // namespace weft
