#include "weft/ops/transpose_2d/transpose_2d.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

Shape swapped(Shape shape) {
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return shape;
}

}  // namespace

void transpose_2d(Stream& stream, const Transpose2dArgs& args) {
  check_operands(stream, args).require(args.x.rank() <= 3, "x must be a matrix or a batch of them, got shape ", args.x.shape);
  if (args.x.numel() == 0) return;
  stream.device().kernels().transpose_2d(stream, args);
}

Tensor transpose_2d(const Tensor& x) {
  check(x.rank() == 2 || x.rank() == 3, Transpose2dArgs::kOp, "x must be a matrix or a batch of them, got ",
        x.defined() ? join("shape ", x.shape()) : "an undefined tensor");
  Device& device = x.device();
  Tensor y = Tensor::empty(device, swapped(x.shape()), x.dtype());
  transpose_2d(device.stream(), {.x = x.view(), .y = y.mut_view()});
  record("transpose_2d", {&x}, {&y},
         [](const Upstream& up) { return std::vector<Tensor>{transpose_2d(contiguous(up.grads[0].detach()))}; });
  return y;
}

}  // namespace weft
