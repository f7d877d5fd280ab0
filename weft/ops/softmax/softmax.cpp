#include "weft/ops/softmax/softmax.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

// `view` is laid out in rows, as `other` is; where both are the same memory, element by element.
void check_like(const Contract& contract, const char* name, const View& view, const char* other_name, const View& other) {
  contract.operand(name, view, kFloats).shape(name, view, other.shape).same_dtype(name, view, other_name, other);
  const Rows rows = as_rows(view, contract.op(), name), others = as_rows(other, contract.op(), other_name);
  const bool shared = view.buffer == other.buffer && view.offset == other.offset;
  contract.require(!shared || rows.rows <= 1 || rows.stride == others.stride, name, " starts where ", other_name,
                   " does but has row stride ", rows.stride, ", not ", others.stride);
}

}  // namespace

void softmax(Stream& stream, const SoftmaxArgs& args) {
  const Contract contract(SoftmaxArgs::kOp, stream);
  contract.operand("x", args.x, kFloats).require(args.x.rank() >= 1, "x must have at least one axis");
  check_like(contract.distinct("y", args.y), "y", args.y, "x", args.x);
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().softmax(stream, args);
}

void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args) {
  const Contract contract(SoftmaxBackwardArgs::kOp, stream);
  contract.operand("y", args.y, kFloats).require(args.y.rank() >= 1, "y must have at least one axis");
  check_like(contract, "dy", args.dy, "y", args.y);
  check_like(contract.distinct("dx", args.dx), "dx", args.dx, "y", args.y);
  check_like(contract, "dx", args.dx, "dy", args.dy);
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().softmax_backward(stream, args);
}

// The exponential counts as one operation.
Cost cost(const SoftmaxArgs& a) { return {bytes_of(a.x) + bytes_of(a.y), 5.0 * double(a.x.numel())}; }
Cost cost(const SoftmaxBackwardArgs& a) { return {bytes_of(a.y) + bytes_of(a.dy) + bytes_of(a.dx), 5.0 * double(a.y.numel())}; }

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
