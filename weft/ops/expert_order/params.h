// Parameters of expert_order's Metal kernel, shared by the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct ExpertOrderParams {
  int32_t P, E;  // ids, experts
};
static_assert(sizeof(ExpertOrderParams) == 8, "host and MSL agree");

}  // namespace weft
