// The numbers of gradient_squares' Metal kernel: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

enum : int { kMetalNormPiece = 32768 };  // kNormPiece, in MSL

struct GradientSquaresParams {
  int64_t count;  // elements of this tensor
  int64_t aligned;
};
static_assert(sizeof(GradientSquaresParams) == 16, "host and MSL agree");

}  // namespace weft
