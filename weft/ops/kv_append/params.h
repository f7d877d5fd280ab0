// What the Metal kernel is told. The same struct on the host and in MSL.
#pragma once

#include "weft/tile/metal/heads.h"

namespace weft {

struct KvAppendParams {
  HeadStrides k, v, k_cache, v_cache;
  int64_t count;  // elements of a sequence: T Hkv D
  int32_t most;   // the last place where a sequence may start
  int32_t H, D;
  int32_t unused;
};
static_assert(sizeof(KvAppendParams) == 120, "the host and MSL must agree");

}  // namespace weft
