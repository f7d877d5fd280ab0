// The numbers of dropout's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct DropoutParams {
  int64_t count;
  uint32_t site, threshold;  // a word below the threshold drops its element
  float inverse;             // 1 / (1 - p)
  int32_t aligned;           // x and y start at 16 bytes
};
static_assert(sizeof(DropoutParams) == 24, "host and MSL agree");

}  // namespace weft
