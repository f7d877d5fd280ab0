// The numbers of clip_of_squares' Metal kernel: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct ClipOfSquaresParams {
  int64_t pieces;
  float max_norm;
  int32_t unused;
};
static_assert(sizeof(ClipOfSquaresParams) == 16, "host and MSL agree");

}  // namespace weft
