// Two operands of one shape and any strides, as few axes as there are. Host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct StridedAxes {
  int64_t count;  // of elements
  int64_t rank;   // the last axis runs fastest
  int64_t extent[6];
  int64_t a[6], b[6];  // strides, in elements
};
static_assert(sizeof(StridedAxes) == 160, "host and MSL agree");

}  // namespace weft
