// The norm of all gradients from the sums of their squares (gradient_squares), and the factor that clips it: the second half of
// gradient_norm.
//
//   norm = sqrt(sum of squares)          clip = min(1, max_norm / (norm + 1e-6)),   1 when max_norm <= 0
//
// In f32. A norm that is not finite is reported as it is: NaN gives clip NaN, infinity gives clip 0.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ClipOfSquaresArgs {
  static constexpr const char* kOp = "clip_of_squares";
  View squares;
  float max_norm;
  MutView norm, clip;

  static constexpr auto operands() {
    using namespace operand;
    using A = ClipOfSquaresArgs;
    return std::array{in("squares", &A::squares, "P", DType::f32), out("norm", &A::norm, "1", DType::f32),
                      out("clip", &A::clip, "1", DType::f32)};
  }
};

void clip_of_squares(Stream& stream, const ClipOfSquaresArgs& args);
inline Cost cost(const ClipOfSquaresArgs& a) { return {operand_bytes(a), double(a.squares.numel())}; }

struct GradientNorm {
  Tensor norm, clip;  // f32 scalars
};
GradientNorm clip_of_squares(const Tensor& squares, float max_norm);

}  // namespace weft
