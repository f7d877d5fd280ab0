// The numbers of softmax's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct SoftmaxParams {
  int64_t rows, x_stride, y_stride;  // in elements
  int32_t columns, team;             // team: threads to a row
  float scale;
  int32_t unused;
};
static_assert(sizeof(SoftmaxParams) == 40, "host and MSL agree");

struct SoftmaxBackwardParams {
  int64_t rows, y_stride, dy_stride, dx_stride;
  int32_t columns, team;
  float scale;
  int32_t unused;
};
static_assert(sizeof(SoftmaxBackwardParams) == 48, "host and MSL agree");

}  // namespace weft
