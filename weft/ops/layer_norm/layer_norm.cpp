#include "weft/ops/layer_norm/layer_norm.h"

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

void check_statistics(const Contract& contract, const View& mean, const View& rstd, int64_t rows) {
  for (auto [name, view] : {std::pair<const char*, const View&>{"mean", mean}, {"rstd", rstd}}) {
    contract.operand(name, view, {DType::f32}).shape(name, view, Shape{rows});
    contract.require(view.contiguous(), name, " must be contiguous, got stride ", view.strides);
  }
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormArgs& args) {
  const Contract contract(LayerNormArgs::kOp, stream);
  contract.operand("x", args.x, kFloats).require(args.x.rank() >= 1, "x must have at least one axis");
  contract.optional("residual", args.residual, kFloats).optional("h", args.h, kFloats).operand("y", args.y, kFloats);
  contract.distinct("h", args.h).distinct("y", args.y).require(bool(args.residual) == bool(args.h), "residual and h go together");
  check_weight(contract, args.w, "x", args.x);
  contract.optional("b", args.b, kFloats).shape("b", args.b, args.w.shape).same_dtype("b", args.b, "w", args.w);
  contract.require(!args.b || args.b.contiguous(), "b must be contiguous, got stride ", args.b.strides);
  for (auto [name, view] : {std::pair<const char*, const View&>{"residual", args.residual}, {"h", args.h}, {"y", args.y}}) {
    contract.shape(name, view, args.x.shape).same_dtype(name, view, "x", args.x);
    if (view) as_rows(view, LayerNormArgs::kOp, name);
  }
  const Rows rows = as_rows(args.x, LayerNormArgs::kOp, "x");
  check_statistics(contract, args.mean, args.rstd, rows.rows);
  contract.require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  stream.device().kernels().layer_norm(stream, args);
}

void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) {
  const Contract contract(LayerNormBackwardArgs::kOp, stream);
  contract.operand("dy", args.dy, kFloats).require(args.dy.rank() >= 1, "dy must have at least one axis");
  contract.optional("dh", args.dh, kFloats).operand("h", args.h, kFloats).operand("dx", args.dx, kFloats).distinct("dx", args.dx);
  check_weight(contract, args.w, "dy", args.dy);
  for (auto [name, view] : {std::pair<const char*, const View&>{"dh", args.dh}, {"h", args.h}, {"dx", args.dx}}) {
    contract.shape(name, view, args.dy.shape).same_dtype(name, view, "dy", args.dy);
    if (view) as_rows(view, LayerNormBackwardArgs::kOp, name);
  }
  check_statistics(contract, args.mean, args.rstd, as_rows(args.dy, LayerNormBackwardArgs::kOp, "dy").rows);
  contract.operand("dw", args.dw, {DType::f32}).optional("db", args.db, {DType::f32});
  for (auto [name, view] : {std::pair<const char*, const View&>{"dw", args.dw}, {"db", args.db}}) {
    contract.shape(name, view, Shape{args.dy.shape.back()});
    contract.require(!view || view.contiguous(), name, " must be contiguous, got stride ", view.strides);
  }
  stream.device().kernels().layer_norm_backward(stream, args);
}

Cost cost(const LayerNormArgs& a) {
  return {bytes_of(a.x) + bytes_of(a.residual) + bytes_of(a.w) + bytes_of(a.b) + bytes_of(a.h) + bytes_of(a.y) + bytes_of(a.mean) +
              bytes_of(a.rstd),
          8.0 * double(a.x.numel())};
}

Cost cost(const LayerNormBackwardArgs& a) {
  return {bytes_of(a.dy) + bytes_of(a.dh) + bytes_of(a.h) + bytes_of(a.w) + bytes_of(a.mean) + bytes_of(a.rstd) + bytes_of(a.dx) +
              bytes_of(a.dw) + bytes_of(a.db),
          15.0 * double(a.dy.numel())};
}

namespace {

// What the forward pass leaves for the backward rule.
struct Saved {
  Kept h, w;
  Tensor mean, rstd;
  bool bias;
};

// The gradients of x (or h), w and b, from dy and what also reached h.
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
