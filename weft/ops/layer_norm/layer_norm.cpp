#include "weft/ops/layer_norm/layer_norm.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void layer_norm(Stream& stream, const LayerNormArgs& args) {
  check_operands(stream, args).require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  stream.device().kernels().layer_norm(stream, args);
}

void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) {
  check_operands(stream, args);
  stream.device().kernels().layer_norm_backward(stream, args);
}

namespace {

// Saved by the forward pass for the backward rule.
struct Saved {
  Kept h, w;
  Tensor mean, rstd;
  bool bias;
};

// The gradients of x (or h), w and b, from dy and the gradient of the residual stream.
std::vector<Tensor> gradients(const Saved& s, const Tensor& upstream_y, const Tensor& upstream_h) {
  Device& device = upstream_y.device();
  const Tensor dy = contiguous(upstream_y.detach()), dh = upstream_h ? contiguous(upstream_h.detach()) : Tensor();
  Tensor dx = Tensor::empty(device, s.h.shape(), s.h.dtype());
  Tensor dw = Tensor::empty(device, s.w.shape()), db = s.bias ? Tensor::empty(device, s.w.shape()) : Tensor();
  layer_norm_backward(device.stream(), {.dy = dy.view(),
                                        .dh = dh.view(),
                                        .h = s.h.view(),
                                        .w = s.w.view(),
                                        .mean = s.mean.view(),
                                        .rstd = s.rstd.view(),
                                        .dx = dx.mut_view(),
                                        .dw = dw.mut_view(),
                                        .db = db.mut_view()});
  return {dx, dw, db};
}

// Launches the op into new tensors: h (the rounded sum, or x itself), y and the statistics.
struct Launched {
  Tensor h, y;
  Saved saved;
};

Launched launched(const Tensor& x, const Tensor& residual, const Tensor& w, const Tensor& b, float eps) {
  Device& device = x.device();
  const int64_t rows = x.rank() == 0 ? 0 : as_rows(x.view(), LayerNormArgs::kOp, "x").rows;
  const Tensor h = residual ? Tensor::empty(device, x.shape(), x.dtype()) : Tensor(), y = Tensor::empty(device, x.shape(), x.dtype());
  const Tensor mean = Tensor::empty(device, Shape{rows}), rstd = Tensor::empty(device, Shape{rows});
  layer_norm(device.stream(), {.x = x.view(),
                               .residual = residual.view(),
                               .w = w.view(),
                               .b = b.view(),
                               .h = h.mut_view(),
                               .y = y.mut_view(),
                               .mean = mean.mut_view(),
                               .rstd = rstd.mut_view(),
                               .eps = eps});
  return {h, y, {residual ? h : x, w, mean, rstd, b.defined()}};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  check(x.defined(), LayerNormArgs::kOp, "x is missing (an undefined tensor)");
  auto [h, y, saved] = launched(x, Tensor(), w, b, eps);
  record("layer_norm", {&x, &w, &b}, {&y}, [saved = saved](const Upstream& up) { return gradients(saved, up.grads[0], Tensor()); });
  return y;
}

LayerNormResidual layer_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, const Tensor& b, float eps) {
  check(x.defined() && residual.defined(), LayerNormArgs::kOp, x ? "residual" : "x", " is missing (an undefined tensor)");
  auto [h, y, saved] = launched(x, residual, w, b, eps);
  record("layer_norm_residual", {&x, &residual, &w, &b}, {&h, &y}, [saved = saved](const Upstream& up) {
    const Tensor &dh = up.grads[0], &dy = up.grads[1];
    if (!dy) return std::vector<Tensor>{dh, dh, Tensor(), Tensor()};
    std::vector<Tensor> grads = gradients(saved, dy, dh);
    return std::vector<Tensor>{grads[0], grads[0], grads[1], grads[2]};
  });
  return {h, y};
}

}  // namespace weft
