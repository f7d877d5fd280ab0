// The numbers of transpose_2d's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct TransposeParams {
  int64_t M, N, x_stride, y_stride, x_batch, y_batch;  // strides in elements
  int32_t aligned, unused;                             // aligned: rows of x and y start at 16 bytes
};
static_assert(sizeof(TransposeParams) == 56, "host and MSL agree");

}  // namespace weft
