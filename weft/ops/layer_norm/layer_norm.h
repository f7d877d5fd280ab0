// Layer normalisation over the last axis (Ba, Kiros and Hinton, 2016), C = its length:
//
//   h = x (+ residual)     mean = sum(h) / C     rstd = 1 / sqrt(sum((h - mean)^2) / C + eps)
//   z = (h - mean) rstd    y = z w (+ b)
//
//   dh = rstd (g - sum(g) / C - z sum(g z) / C) (+ dh from the residual stream),    g = dy w
//   dw = sum over rows of dy z                   db = sum over rows of dy
//
// The variance takes a second pass over the row: sum(h^2) - C mean^2 would cancel where the mean is large.
// x, residual and y are f32 or bf16; w and b have their dtype or f32. mean, rstd, dw, db are f32. dx and dresidual
// are both dh.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct LayerNormArgs {
  static constexpr const char* kOp = "layer_norm";
  View x;         // [..., C]
  View residual;  // as x; absent: h = x
  View w;         // [C]
  View b;         // as w; absent: none
  MutView h;      // as x; present exactly when residual is
  MutView y;      // as x
  MutView mean;   // [rows], f32
  MutView rstd;   // [rows], f32
  float eps;
};

struct LayerNormBackwardArgs {
  static constexpr const char* kOp = "layer_norm_backward";
  View dy;     // [..., C]
  View dh;     // as dy: the gradient that reached h by other ways; absent: none
  View h;      // as dy: what was normalised
  View w;      // [C]
  View mean;   // [rows], f32
  View rstd;   // [rows], f32
  MutView dx;  // as dy
  MutView dw;  // [C], f32
  MutView db;  // [C], f32; absent: not wanted
};

// Checked launches into memory the caller owns.
void layer_norm(Stream& stream, const LayerNormArgs& args);
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args);
Cost cost(const LayerNormArgs& args);
Cost cost(const LayerNormBackwardArgs& args);

// y = layer_norm(x). b may be undefined: no bias.
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);

// The fused residual form: h = x + residual goes on as the residual stream, y = layer_norm(h) into the next layer.
struct LayerNormResidual {
  Tensor h, y;
};
LayerNormResidual layer_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, const Tensor& b, float eps);

}  // namespace weft
