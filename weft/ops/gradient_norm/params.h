// The numbers of gradient_norm's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct GradientNormPieceParams {
  int64_t count;  // elements of this tensor
  int64_t aligned;
};
static_assert(sizeof(GradientNormPieceParams) == 16, "host and MSL agree");

struct GradientNormParams {
  int64_t pieces;
  float max_norm;
  int32_t unused;
};
static_assert(sizeof(GradientNormParams) == 16, "host and MSL agree");

}  // namespace weft
