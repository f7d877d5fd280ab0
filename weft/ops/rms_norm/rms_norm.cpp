#include "weft/ops/rms_norm/rms_norm.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void rms_norm(Stream& stream, const RmsNormArgs& args) {
  check_operands(stream, args).require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  stream.device().kernels().rms_norm(stream, args);
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  check_operands(stream, args);
  stream.device().kernels().rms_norm_backward(stream, args);
}

namespace {

int64_t row_count(const Tensor& x) { return x.rank() == 0 ? 0 : as_rows(x.view(), RmsNormArgs::kOp, "x").rows; }

// The gradients of x (or h) and w, from dy and the gradient of the residual stream.
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
