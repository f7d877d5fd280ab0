// Parameters of the decode kernels in Metal: the same struct on the host and in MSL.
#pragma once

#include "weft/tile/metal/heads.h"

namespace weft {

struct DecodeParams {
  HeadStrides q, k, v, o;
  int32_t capacity, H, group, D;  // group: heads to a key head
  int32_t segments;               // of the whole capacity
  float scale;
  int32_t window;  // 0: none
  float soft_cap;  // 0: none
  PageSizes pages;
};
static_assert(sizeof(DecodeParams) == 144, "the host and MSL must agree");

}  // namespace weft
