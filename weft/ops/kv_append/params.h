// The numbers of kv_append's Metal kernel: one struct for the host and MSL.
#pragma once

#include "weft/tile/metal/heads.h"

namespace weft {

struct KvAppendParams {
  HeadStrides k, v, k_cache, v_cache;
  int64_t count;  // elements of a sequence: T Hkv D
  int32_t most;   // the last place where a sequence may start
  int32_t H, D;
  int32_t unused;
  PageSizes pages;
};
static_assert(sizeof(KvAppendParams) == 136, "the host and MSL must agree");

}  // namespace weft
