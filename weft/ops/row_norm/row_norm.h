// The norms of rows as one op: layer_norm subtracts the mean of a row (kCentred) and may add a bias, rms_norm does neither.
//
//   h = x (+ residual)       z = (h - mean) rstd                  rstd = 1 / sqrt(mean((h - mean)^2) + eps)
//   y = z w (+ b)            mean = 0 unless centred
//
//   dx = rstd (g - mean(g) - z mean(g z)) (+ dh),  g = dy w       dw = sum over rows of dy z      db = sum over rows of dy
//   mean(g) is left out unless centred
//
// The kernels of both stand here once per backend: cpu.h, cuda.cuh, metal.h with metal.metal.h. They take these structs, in
// which rms_norm leaves b, mean and db absent. The contracts are those of the two ops.
#pragma once

#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/rms_norm/rms_norm.h"

namespace weft {

using RowNormArgs = LayerNormArgs;
using RowNormBackwardArgs = LayerNormBackwardArgs;

inline RowNormArgs row_norm_args(const RmsNormArgs& a) {
  return {.x = a.x, .residual = a.residual, .w = a.w, .b = {}, .h = a.h, .y = a.y, .mean = {}, .rstd = a.rstd, .eps = a.eps};
}
inline RowNormBackwardArgs row_norm_args(const RmsNormBackwardArgs& a) {
  return {.dy = a.dy, .dh = a.dh, .h = a.h, .w = a.w, .mean = {}, .rstd = a.rstd, .dx = a.dx, .dw = a.dw, .db = {}};
}

template <bool kCentred>
inline constexpr const char* kRowNorm = kCentred ? LayerNormArgs::kOp : RmsNormArgs::kOp;
template <bool kCentred>
inline constexpr const char* kRowNormBackward = kCentred ? LayerNormBackwardArgs::kOp : RmsNormBackwardArgs::kOp;

}  // namespace weft
