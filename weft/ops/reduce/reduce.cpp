#include "weft/ops/reduce/reduce.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

Shape without_axis(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) rest.push_back(shape[i]);
  return rest;
}

// What is left after the reduction (y or dy): contiguous, f32 or the dtype of what was reduced.
void check_reduced(const Contract& contract, const char* name, const View& view, const View& full, int axis) {
  contract.operand(name, view, kFloats).shape(name, view, without_axis(full.shape, axis));
  contract.require(view.dtype == DType::f32 || view.dtype == full.dtype, name, " is ", view.dtype, ", expected f32 or ", full.dtype);
  contract.require(view.contiguous(), name, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
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
  const Contract contract(ReduceArgs::kOp, stream);
  contract.operand("x", args.x, kFloats).require(args.x.rank() >= 1, "x must have at least one axis");
  const int axis = normalise_axis(args.axis, args.x.rank(), ReduceArgs::kOp);
  reduce_span(args.x, axis, ReduceArgs::kOp, "x");
  check_reduced(contract, "y", args.y, args.x, axis);
  stream.device().kernels().reduce(stream, args);
}

void reduce_backward(Stream& stream, const ReduceBackwardArgs& args) {
  const Contract contract(ReduceBackwardArgs::kOp, stream);
  contract.operand("dx", args.dx, kFloats).require(args.dx.rank() >= 1, "dx must have at least one axis").distinct("dx", args.dx);
  const int axis = normalise_axis(args.axis, args.dx.rank(), ReduceBackwardArgs::kOp);
  reduce_span(args.dx, axis, ReduceBackwardArgs::kOp, "dx");
  check_reduced(contract, "dy", args.dy, args.dx, axis);
  if (args.kind != Reduction::sum) {
    contract.operand("x", args.x, kFloats).shape("x", args.x, args.dx.shape).same_dtype("x", args.x, "dx", args.dx);
    reduce_span(args.x, axis, ReduceBackwardArgs::kOp, "x");
  }
  if (args.kind == Reduction::max) check_reduced(contract, "y", args.y, args.x, axis);
  stream.device().kernels().reduce_backward(stream, args);
}

Cost cost(const ReduceArgs& a) {
  return {bytes_of(a.x) + bytes_of(a.y), (a.kind == Reduction::sum_squares ? 2.0 : 1.0) * double(a.x.numel())};
}

Cost cost(const ReduceBackwardArgs& a) {
  const bool reads_x = a.kind != Reduction::sum, is_max = a.kind == Reduction::max;
  return {bytes_of(a.dy) + bytes_of(a.dx) + (reads_x ? bytes_of(a.x) : 0) + (is_max ? bytes_of(a.y) : 0),
          (reads_x ? 2.0 : 0.0) * double(a.dx.numel())};
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
