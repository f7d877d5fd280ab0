#include "weft/ops/transpose_2d/transpose_2d.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kAll = {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8};

Shape swapped(Shape shape) {
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return shape;
}

}  // namespace

void transpose_2d(Stream& stream, const Transpose2dArgs& args) {
  const Contract contract(Transpose2dArgs::kOp, stream);
  contract.operand("x", args.x, kAll).operand("y", args.y, kAll).same_dtype("y", args.y, "x", args.x);
  contract.require(args.x.rank() == 2 || args.x.rank() == 3, "x must be a matrix or a batch of them, got shape ", args.x.shape);
  contract.shape("y", args.y, swapped(args.x.shape)).distinct("y", args.y);
  if (args.x.numel() == 0) return;
  for (auto [name, view] : {std::pair<const char*, const View&>{"x", args.x}, {"y", args.y}})
    contract.require(view.shape.back() == 1 || view.strides.back() == 1, name, " must have unit stride along its last axis, got strides ",
                     view.strides, " for shape ", view.shape);
  stream.device().kernels().transpose_2d(stream, args);
}

Cost cost(const Transpose2dArgs& a) { return {bytes_of(a.x) + bytes_of(a.y), 0}; }

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
