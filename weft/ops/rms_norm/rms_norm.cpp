#include "weft/ops/rms_norm/rms_norm.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

void check_weight(const Contract& contract, const View& w, const char* x_name, const View& x) {
  contract.operand("w", w, kFloats).shape("w", w, Shape{x.shape.back()});
  contract.require(w.dtype == DType::f32 || w.dtype == x.dtype, "w is ", w.dtype, " but ", x_name, " is ", x.dtype);
  contract.require(w.contiguous(), "w must be contiguous, got stride ", w.strides);
}

void check_rstd(const Contract& contract, const View& rstd, int64_t rows) {
  contract.operand("rstd", rstd, {DType::f32}).shape("rstd", rstd, Shape{rows});
  contract.require(rstd.contiguous(), "rstd must be contiguous, got stride ", rstd.strides);
}

}  // namespace

void rms_norm(Stream& stream, const RmsNormArgs& args) {
  const Contract contract(RmsNormArgs::kOp, stream);
  contract.operand("x", args.x, kFloats).require(args.x.rank() >= 1, "x must have at least one axis");
  contract.optional("residual", args.residual, kFloats).optional("h", args.h, kFloats).operand("y", args.y, kFloats);
  contract.distinct("h", args.h).distinct("y", args.y).require(bool(args.residual) == bool(args.h), "residual and h go together");
  check_weight(contract, args.w, "x", args.x);
  for (auto [name, view] : {std::pair<const char*, const View&>{"residual", args.residual}, {"h", args.h}, {"y", args.y}}) {
    contract.shape(name, view, args.x.shape).same_dtype(name, view, "x", args.x);
    if (view) as_rows(view, RmsNormArgs::kOp, name);
  }
  check_rstd(contract, args.rstd, as_rows(args.x, RmsNormArgs::kOp, "x").rows);
  contract.require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  stream.device().kernels().rms_norm(stream, args);
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  const Contract contract(RmsNormBackwardArgs::kOp, stream);
  contract.operand("dy", args.dy, kFloats).require(args.dy.rank() >= 1, "dy must have at least one axis");
  contract.optional("dh", args.dh, kFloats).operand("h", args.h, kFloats).operand("dx", args.dx, kFloats).distinct("dx", args.dx);
  check_weight(contract, args.w, "dy", args.dy);
  for (auto [name, view] : {std::pair<const char*, const View&>{"dh", args.dh}, {"h", args.h}, {"dx", args.dx}}) {
    contract.shape(name, view, args.dy.shape).same_dtype(name, view, "dy", args.dy);
    if (view) as_rows(view, RmsNormBackwardArgs::kOp, name);
  }
  check_rstd(contract, args.rstd, as_rows(args.dy, RmsNormBackwardArgs::kOp, "dy").rows);
  contract.operand("dw", args.dw, {DType::f32}).shape("dw", args.dw, Shape{args.dy.shape.back()});
  contract.require(args.dw.contiguous(), "dw must be contiguous, got stride ", args.dw.strides);
  stream.device().kernels().rms_norm_backward(stream, args);
}

Cost cost(const RmsNormArgs& a) {
  return {bytes_of(a.x) + bytes_of(a.residual) + bytes_of(a.w) + bytes_of(a.h) + bytes_of(a.y) + bytes_of(a.rstd),
          4.0 * double(a.x.numel())};
}

Cost cost(const RmsNormBackwardArgs& a) {
  return {bytes_of(a.dy) + bytes_of(a.dh) + bytes_of(a.h) + bytes_of(a.w) + bytes_of(a.rstd) + bytes_of(a.dx) + bytes_of(a.dw),
          9.0 * double(a.dy.numel())};
}

namespace {

int64_t row_count(const Tensor& x) { return x.rank() == 0 ? 0 : as_rows(x.view(), RmsNormArgs::kOp, "x").rows; }

// The gradients of x (or h) and w, from dy and what also reached h.
std::vector<Tensor> gradients(const Tensor& upstream, const Tensor& other, const Tensor& h, const Tensor& w, const Tensor& rstd) {
  const Tensor dy = contiguous(upstream), dh = other ? contiguous(other) : Tensor();
  Device& device = dy.device();
  Tensor dx = Tensor::empty(device, h.shape(), h.dtype());
  Tensor dw = Tensor::empty(device, w.shape());
  rms_norm_backward(
      device.stream(),
      {.dy = dy.view(), .dh = dh.view(), .h = h.view(), .w = w.view(), .rstd = rstd.view(), .dx = dx.mut_view(), .dw = dw.mut_view()});
  return {dx, dw};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps) {
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  Tensor rstd = Tensor::empty(device, Shape{row_count(x)});
  rms_norm(device.stream(),
           {.x = x.view(), .residual = {}, .w = w.view(), .h = {}, .y = y.mut_view(), .rstd = rstd.mut_view(), .eps = eps});
  record("rms_norm", {&x, &w}, {&y},
         [x = Kept(x), w = Kept(w), rstd](const Upstream& up) { return gradients(up.grads[0], Tensor(), x, w, rstd); });
  return y;
}

RmsNormResidual rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, float eps) {
  Device& device = x.device();
  Tensor h = Tensor::empty(device, x.shape(), x.dtype()), y = Tensor::empty(device, x.shape(), x.dtype());
  Tensor rstd = Tensor::empty(device, Shape{row_count(x)});
  rms_norm(device.stream(), {.x = x.view(),
                             .residual = residual.view(),
                             .w = w.view(),
                             .h = h.mut_view(),
                             .y = y.mut_view(),
                             .rstd = rstd.mut_view(),
                             .eps = eps});
  record("rms_norm_residual", {&x, &residual, &w}, {&h, &y}, [h = Kept(h), w = Kept(w), rstd](const Upstream& up) {
    const Tensor &dh = up.grads[0], &dy = up.grads[1];
    if (!dy) return std::vector<Tensor>{dh, dh, Tensor()};
    std::vector<Tensor> grads = gradients(dy, dh, h, w, rstd);
    return std::vector<Tensor>{grads[0], grads[0], grads[1]};
  });
  return {h, y};
}

}  // namespace weft
