// Root-mean-square normalisation over the last axis (Zhang and Sennrich, 2019), C = its length:
//
//   h = x (+ residual)          rstd = 1 / sqrt(mean(h^2) + eps)          y = h rstd w
//
//   dh = rstd (dy w - h rstd^2 s / C) (+ dh from the residual stream),    s = sum(dy w h)
//   dw = sum over rows of dy h rstd
//
// x, residual and y are f32 or bf16; w has their dtype or f32. rstd and dw are f32. dx and dresidual are both dh.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct RmsNormArgs {
  static constexpr const char* kOp = "rms_norm";
  View x;         // [..., C]
  View residual;  // as x; absent: h = x
  View w;         // [C]
  MutView h;      // as x; present exactly when residual is
  MutView y;      // as x
  MutView rstd;   // [rows], f32
  float eps;
};

struct RmsNormBackwardArgs {
  static constexpr const char* kOp = "rms_norm_backward";
  View dy;     // [..., C]
  View dh;     // as dy: the gradient that reached h by other ways; absent: none
  View h;      // as dy: what was normalised
  View w;      // [C]
  View rstd;   // [rows], f32
  MutView dx;  // as dy
  MutView dw;  // [C], f32
};

// Checked launches into memory the caller owns.
void rms_norm(Stream& stream, const RmsNormArgs& args);
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args);
Cost cost(const RmsNormArgs& args);
Cost cost(const RmsNormBackwardArgs& args);

// y = rms_norm(x).
Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);

// The fused residual form: h = x + residual goes on as the residual stream, y = rms_norm(h) into the next layer.
struct RmsNormResidual {
  Tensor h, y;
};
RmsNormResidual rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, float eps);

}  // namespace weft
