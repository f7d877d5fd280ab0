// The numbers of rms_norm's and layer_norm's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct RowNormParams {
  int64_t rows, x_stride, residual_stride, h_stride, y_stride;  // strides in elements
  int32_t columns, team;                                        // team: threads to a row
  float eps;
  int32_t unused;
};
static_assert(sizeof(RowNormParams) == 56, "host and MSL agree");

struct RowNormBackwardParams {
  int64_t rows, partials, dy_stride, dh_stride, h_stride, dx_stride;
  int32_t columns, team;
};
static_assert(sizeof(RowNormBackwardParams) == 56, "host and MSL agree");

}  // namespace weft
