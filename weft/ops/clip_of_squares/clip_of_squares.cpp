#include "weft/ops/clip_of_squares/clip_of_squares.h"

#include <cmath>

#include "weft/tensor/node.h"

namespace weft {

void clip_of_squares(Stream& stream, const ClipOfSquaresArgs& args) {
  check_operands(stream, args).require(!std::isnan(args.max_norm), "max_norm is NaN");
  stream.device().kernels().clip_of_squares(stream, args);
}

GradientNorm clip_of_squares(const Tensor& squares, float max_norm) {
  check(squares.defined(), ClipOfSquaresArgs::kOp, "squares is undefined");
  Device& device = squares.device();
  GradientNorm out{Tensor::empty(device, {}), Tensor::empty(device, {})};
  record(ClipOfSquaresArgs::kOp, {&squares}, {&out.norm, &out.clip}, NotDifferentiable{"it looks at gradients"});
  clip_of_squares(device.stream(),
                  {.squares = squares.view(), .max_norm = max_norm, .norm = out.norm.mut_view(), .clip = out.clip.mut_view()});
  return out;
}

}  // namespace weft
