// The norm of all gradients together, and the factor that clips it (Pascanu et al., 2013):
//
//   norm = sqrt(sum over all elements of all tensors of g^2)
//   clip = min(1, max_norm / (norm + 1e-6)),   1 when max_norm <= 0
//
// Made of gradient_squares, the sums of each tensor's pieces of kNormPiece elements, and clip_of_squares, which adds the pieces.
// A norm that is not finite is reported as it is: NaN gives clip NaN, infinity (also where a square overflows f32) gives
// clip 0. Both are device scalars: clip goes straight to adamw as grad_scale.
#pragma once

#include <span>
#include <vector>

#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/ops/gradient_squares/gradient_squares.h"

namespace weft {

struct GradientNormArgs {
  static constexpr const char* kOp = "gradient_norm";
  std::vector<View> grads;  // any shapes, f32 or bf16, contiguous
  float max_norm;
  MutView norm, clip;

  static constexpr auto operands() {
    using namespace operand;
    using A = GradientNormArgs;
    return std::array{out("norm", &A::norm, "1", DType::f32), out("clip", &A::clip, "1", DType::f32)};
  }
};

void gradient_norm(Stream& stream, const GradientNormArgs& args);
Cost cost(const GradientNormArgs& args);

GradientNorm gradient_norm(Device& device, std::span<const Tensor> grads, float max_norm);

}  // namespace weft
