#include "weft/ops/bias_add/bias_add.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/node.h"

namespace weft {

void bias_add(Stream& stream, const BiasAddArgs& args) {
  const Contract contract(BiasAddArgs::kOp, stream);
  contract.operand("x", args.x, {DType::f32, DType::bf16}).require(args.x.rank() >= 1, "x must have at least one axis");
  contract.operand("bias", args.bias, {DType::f32, DType::bf16}).shape("bias", args.bias, Shape{args.x.shape.back()});
  contract.require(args.bias.dtype == DType::f32 || args.bias.dtype == args.x.dtype, "bias is ", args.bias.dtype, " but x is ", args.x.dtype);
  contract.require(args.bias.contiguous(), "bias must be contiguous, got stride ", args.bias.strides);
  contract.operand("y", args.y, {DType::f32, DType::bf16}).same_dtype("y", args.y, "x", args.x)
      .shape("y", args.y, args.x.shape).distinct("y", args.y);
  as_rows(args.x, BiasAddArgs::kOp, "x");
  as_rows(args.y, BiasAddArgs::kOp, "y");
  if (args.x.numel() == 0) return;
  stream.device().kernels().bias_add(stream, args);
}

Cost cost(const BiasAddArgs& a) { return {bytes_of(a.x) + bytes_of(a.bias) + bytes_of(a.y), double(a.x.numel())}; }

Tensor bias_add(const Tensor& x, const Tensor& bias) {
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  bias_add(device.stream(), {.x = x.view(), .bias = bias.view(), .y = y.mut_view()});
  record("bias_add", {&x, &bias}, {&y}, [rows = as_rows(y.view(), BiasAddArgs::kOp, "y")](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    if (!up.wanted[1]) return std::vector<Tensor>{dy, Tensor()};
    return std::vector<Tensor>{dy, reduce_sum(contiguous(dy).reshape({rows.rows, rows.columns}), 0)};
  });
  return y;
}

}  // namespace weft
