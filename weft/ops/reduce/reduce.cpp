#include "weft/ops/reduce/reduce.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

Shape without_axis(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) rest.push_back(shape[i]);
  return rest;
}

}  // namespace

ReduceSpan reduce_span(const View& view, int axis, const char* op, const char* operand) {
  axis = normalise_axis(axis, view.rank(), op);
  ReduceSpan span{.n = view.shape[axis]};
  for (int i = 0; i < axis; ++i) span.outer *= view.shape[i];
  for (int i = axis + 1; i < view.rank(); ++i) span.inner *= view.shape[i];
  span.stride = span.inner;
  span.outer_stride = span.n * span.inner;
  if (view.numel() == 0) return span;  // nothing will be addressed

  int64_t step = 1;
  for (int i = view.rank() - 1; i > axis; --i) {
    check(view.shape[i] == 1 || view.strides[i] == step, op, operand, " must be contiguous in the axes after axis ", axis, ", got strides ",
          view.strides, " for shape ", view.shape);
    step *= view.shape[i];
  }
  if (span.n > 1) {
    check(span.inner > 1 || view.strides[axis] == 1, op, operand, " must have unit stride along axis ", axis, ", got strides ",
          view.strides, " for shape ", view.shape);
    span.stride = view.strides[axis];
  }
  int64_t collapsed = 1;
  for (int i = axis - 1; i >= 0; --i) {
    if (view.shape[i] == 1) continue;
    if (collapsed == 1) span.outer_stride = view.strides[i];
    check(view.strides[i] == span.outer_stride * collapsed, op, operand, " must have equally spaced parts before axis ", axis,
          ", got strides ", view.strides, " for shape ", view.shape);
    collapsed *= view.shape[i];
  }
  return span;
}

void reduce(Stream& stream, const ReduceArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int axis = normalise_axis(args.axis, args.x.rank(), ReduceArgs::kOp);
  reduce_span(args.x, axis, ReduceArgs::kOp, "x");
  contract.shape("y", args.y, without_axis(args.x.shape, axis));
  stream.device().kernels().reduce(stream, args);
}

void reduce_backward(Stream& stream, const ReduceBackwardArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(bool(args.x) == (args.kind != Reduction::sum), "x is ",
                   args.x ? "given, but a sum's gradient does not need it" : "missing");
  contract.require(bool(args.y) == (args.kind == Reduction::max), "y is ", args.y ? "given, but only max needs it" : "missing");
  const int axis = normalise_axis(args.axis, args.dx.rank(), ReduceBackwardArgs::kOp);
  reduce_span(args.dx, axis, ReduceBackwardArgs::kOp, "dx");
  const Shape reduced = without_axis(args.dx.shape, axis);
  contract.shape("x", args.x, args.dx.shape).shape("y", args.y, reduced).shape("dy", args.dy, reduced);
  if (args.x) reduce_span(args.x, axis, ReduceBackwardArgs::kOp, "x");
  stream.device().kernels().reduce_backward(stream, args);
}

namespace {

Tensor reduced(const char* op, const Tensor& x, int axis, Reduction kind) {
  check(x.defined(), op, "x is missing (an undefined tensor)");
  axis = normalise_axis(axis, x.rank(), op);
  Device& device = x.device();
  Tensor y = Tensor::empty(device, without_axis(x.shape(), axis));
  reduce(device.stream(), {.x = x.view(), .y = y.mut_view(), .axis = axis, .kind = kind});
  // A sum's gradient needs the shape alone, so it keeps no memory alive.
  const Kept kept_x = kind == Reduction::sum ? Tensor() : x, kept_y = kind == Reduction::max ? y : Tensor();
  record(op, {&x}, {&y}, [=, shape = x.shape(), dtype = x.dtype()](const Upstream& up) {
    const Tensor dy = contiguous(up.grads[0].detach());
    Tensor dx = Tensor::empty(dy.device(), shape, dtype);
    reduce_backward(dy.device().stream(),
                    {.x = kept_x.view(), .y = kept_y.view(), .dy = dy.view(), .dx = dx.mut_view(), .axis = axis, .kind = kind});
    return std::vector<Tensor>{dx};
  });
  return y;
}

}  // namespace

Tensor reduce_sum(const Tensor& x, int axis) { return reduced("reduce_sum", x, axis, Reduction::sum); }
Tensor reduce_sum_squares(const Tensor& x, int axis) { return reduced("reduce_sum_squares", x, axis, Reduction::sum_squares); }
Tensor reduce_max(const Tensor& x, int axis) { return reduced("reduce_max", x, axis, Reduction::max); }

Tensor sum_all(const Tensor& x) {
  check(x.defined(), "sum_all", "x is missing (an undefined tensor)");
  return reduce_sum(contiguous(x).reshape(Shape{x.numel()}), 0);
}

}  // namespace weft
