// Parameters of the decode kernels in Metal: the same struct on the host and in MSL.
#pragma once

#include "weft/tile/metal/heads.h"

namespace weft {

struct DecodeParams {
  HeadStrides q, k, v, o;
  int32_t capacity, H, group, D;  // group: heads to a key head
  int32_t segments;               // of the whole capacity
  float scale;
};
static_assert(sizeof(DecodeParams) == 120, "the host and MSL must agree");

}  // namespace weft
