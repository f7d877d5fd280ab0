// Random words as weft/base/philox.h defines them: word i of a call is word i mod 4 of block i / 4.
#pragma once

#include "weft/base/philox.h"

namespace weft::cuda {

__device__ __forceinline__ PhiloxBlock random_block(const uint32_t* state, uint32_t site, int64_t block) {
  return philox({uint32_t(block), site, state[2], state[3]}, {state[0], state[1]});
}

}  // namespace weft::cuda
