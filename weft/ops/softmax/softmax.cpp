#include "weft/ops/softmax/softmax.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void softmax(Stream& stream, const SoftmaxArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.same_rows_if_shared("y", args.y, "x", args.x);
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().softmax(stream, args);
}

void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.same_rows_if_shared("dx", args.dx, "y", args.y).same_rows_if_shared("dx", args.dx, "dy", args.dy);
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().softmax_backward(stream, args);
}

Tensor softmax(const Tensor& x, float scale) {
  check(x.defined(), "softmax", "x is missing (an undefined tensor)");
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  softmax(device.stream(), {.x = x.view(), .y = y.mut_view(), .scale = scale});
  record("softmax", {&x}, {&y}, [y = Kept(y), scale](const Upstream& up) {
    const Tensor dy = contiguous(up.grads[0].detach());
    Tensor dx = Tensor::empty(dy.device(), y.shape(), y.dtype());
    softmax_backward(dy.device().stream(), {.y = y.view(), .dy = dy.view(), .dx = dx.mut_view(), .scale = scale});
    return std::vector<Tensor>{dx};
  });
  return y;
}

}  // namespace weft
