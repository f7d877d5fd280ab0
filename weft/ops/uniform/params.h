// The numbers of uniform's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct UniformParams {
  int64_t count;
  uint32_t site;
  int32_t aligned;  // out starts at 16 bytes
  float low, range;
};
static_assert(sizeof(UniformParams) == 24, "host and MSL agree");

}  // namespace weft
