#include "weft/ops/scale/scale.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void scale(Stream& stream, const ScaleArgs& args) {
  const Contract contract(ScaleArgs::kOp, stream);
  contract.operand("x", args.x, {DType::f32, DType::bf16}).operand("y", args.y, {DType::f32, DType::bf16});
  contract.same_dtype("y", args.y, "x", args.x).shape("y", args.y, args.x.shape).distinct("y", args.y);
  if (args.factor) contract.scalar("factor", args.factor, DType::f32);
  rows_or_scalar(args.x, ScaleArgs::kOp, "x");
  rows_or_scalar(args.y, ScaleArgs::kOp, "y");
  if (args.x.numel() == 0) return;
  stream.device().kernels().scale(stream, args);
}

Cost cost(const ScaleArgs& a) { return {bytes_of(a.x) + bytes_of(a.factor) + bytes_of(a.y), double(a.x.numel())}; }

Tensor scale(const Tensor& x, float by, const Tensor& factor) {
  check(!should_record({&factor}), ScaleArgs::kOp, "factor has no gradient, but requires one; use detach()");
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  scale(device.stream(), {.x = x.view(), .factor = factor.view(), .by = by, .y = y.mut_view()});
  record("scale", {&x}, {&y}, [by, factor](const Upstream& up) {
    return std::vector<Tensor>{scale(contiguous(up.grads[0].detach()), by, factor.detach())};
  });
  return y;
}

}  // namespace weft
