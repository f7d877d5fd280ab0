// Parameters of route's Metal kernels, shared by the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct RouteParams {
  int64_t rows, stride, to_stride;  // row strides of logits and dlogits, in elements
  int32_t experts, chosen, of_chosen, unused;
};
static_assert(sizeof(RouteParams) == 40, "host and MSL agree");

}  // namespace weft
