// Root-mean-square normalisation over the last axis (Zhang and Sennrich, 2019), C = its length:
//
//   h = x (+ residual)          rstd = 1 / sqrt(mean(h^2) + eps)          y = h rstd w
//
//   dh = rstd (dy w - h rstd^2 s / C) (+ dh from the residual stream),    s = sum(dy w h)
//   dw = sum over rows of dy h rstd
//
// x, residual and y are f32 or bf16; w has their dtype or f32. rstd and dw are f32. dx and dresidual are both dh.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct RmsNormArgs {
  static constexpr const char* kOp = "rms_norm";
  View x, residual, w;  // without a residual h = x
  MutView h, y, rstd;
  float eps;

  static constexpr auto operands() {
    using namespace operand;
    using A = RmsNormArgs;
    return std::array{in("x", &A::x, "... C", kFloats).rows(),    in("residual", &A::residual, "... C", like("x")).rows().optional(),
                      in("w", &A::w, "C", like("x", DType::f32)), out("h", &A::h, "... C", like("x")).rows().with("residual"),
                      out("y", &A::y, "... C", like("x")).rows(), out("rstd", &A::rstd, "(...)", DType::f32)};
  }
};

struct RmsNormBackwardArgs {
  static constexpr const char* kOp = "rms_norm_backward";
  View dy, dh, h, w, rstd;  // dh: the gradient that reaches h from the residual stream
  MutView dx, dw;

  static constexpr auto operands() {
    using namespace operand;
    using A = RmsNormBackwardArgs;
    return std::array{in("dy", &A::dy, "... C", kFloats).rows(),  in("dh", &A::dh, "... C", like("dy")).rows().optional(),
                      in("h", &A::h, "... C", like("dy")).rows(), in("w", &A::w, "C", like("dy", DType::f32)),
                      in("rstd", &A::rstd, "(...)", DType::f32),  out("dx", &A::dx, "... C", like("dy")).rows(),
                      out("dw", &A::dw, "C", DType::f32)};
  }
};

// Checked launches into memory the caller owns.
void rms_norm(Stream& stream, const RmsNormArgs& args);
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args);
inline Cost cost(const RmsNormArgs& a) { return {operand_bytes(a), 4.0 * double(a.x.numel())}; }
inline Cost cost(const RmsNormBackwardArgs& a) { return {operand_bytes(a), 9.0 * double(a.dy.numel())}; }

// y = rms_norm(x).
Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);

// The fused residual form: h = x + residual continues as the residual stream, y = rms_norm(h) into the next layer.
struct RmsNormResidual {
  Tensor h, y;
};
RmsNormResidual rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& w, float eps);

}  // namespace weft
