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

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct LayerNormArgs {
  static constexpr const char* kOp = "layer_norm";
  View x, residual, w, b;  // without a residual h = x
  MutView h, y, mean, rstd;
  float eps;

  static constexpr auto operands() {
    using namespace operand;
    using A = LayerNormArgs;
    return std::array{in("x", &A::x, "... C", kFloats).rows(),
                      in("residual", &A::residual, "... C", like("x")).rows().optional(),
                      in("w", &A::w, "C", like("x", DType::f32)),
                      in("b", &A::b, "C", like("w")).optional(),
                      out("h", &A::h, "... C", like("x")).rows().with("residual"),
                      out("y", &A::y, "... C", like("x")).rows(),
                      out("mean", &A::mean, "(...)", DType::f32),
                      out("rstd", &A::rstd, "(...)", DType::f32)};
  }
};

struct LayerNormBackwardArgs {
  static constexpr const char* kOp = "layer_norm_backward";
  View dy, dh, h, w, mean, rstd;  // dh: the gradient that reaches h from the residual stream
  MutView dx, dw, db;             // db may be left out

  static constexpr auto operands() {
    using namespace operand;
    using A = LayerNormBackwardArgs;
    return std::array{in("dy", &A::dy, "... C", kFloats).rows(),     in("dh", &A::dh, "... C", like("dy")).rows().optional(),
                      in("h", &A::h, "... C", like("dy")).rows(),    in("w", &A::w, "C", like("dy", DType::f32)),
                      in("mean", &A::mean, "(...)", DType::f32),     in("rstd", &A::rstd, "(...)", DType::f32),
                      out("dx", &A::dx, "... C", like("dy")).rows(), out("dw", &A::dw, "C", DType::f32),
                      out("db", &A::db, "C", DType::f32).optional()};
  }
};

// Checked launches into memory the caller owns.
void layer_norm(Stream& stream, const LayerNormArgs& args);
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args);
inline Cost cost(const LayerNormArgs& a) { return {operand_bytes(a), 8.0 * double(a.x.numel())}; }
inline Cost cost(const LayerNormBackwardArgs& a) { return {operand_bytes(a), 15.0 * double(a.dy.numel())}; }

// y = layer_norm(x). b may be undefined: no bias.
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);

// The fused residual form: h = x + residual continues as the residual stream, y = layer_norm(h) into the next layer.
struct LayerNormResidual {
  Tensor h, y;
};
LayerNormResidual layer_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, const Tensor& b, float eps);

}  // namespace weft
