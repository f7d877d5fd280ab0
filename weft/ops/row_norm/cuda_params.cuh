// The operands of the norms' kernels on CUDA (cuda.cuh, cuda_warp.cuh).
#pragma once

#include <cstdint>

namespace weft::cuda {

template <class T, class Weight>
struct RowNorm {
  const T *x, *residual;
  const Weight *w, *b;
  T *h, *y;
  float *mean, *rstd;
  int64_t rows, x_stride, residual_stride, h_stride, y_stride;
  int columns;
  bool aligned;
  float eps;
};

template <class T, class Weight>
struct RowNormBackward {
  const T *dy, *dh, *h;
  const Weight* w;
  const float *mean, *rstd;
  T* dx;
  float *dw_partial, *db_partial;  // [P, C] each; db_partial may be absent
  int64_t rows, partials, dy_stride, dh_stride, h_stride, dx_stride;
  int columns;
  bool aligned;
};

}  // namespace weft::cuda
