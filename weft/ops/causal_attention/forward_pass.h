// The forward pass over keys that may begin before the queries, as kv_attention needs it for a whole prompt; each GPU backend has one.
#pragma once

#include "weft/device/stream.h"
#include "weft/tensor/view.h"

namespace weft {

struct AttentionForward {
  const char* op;
  View q, k, v;  // as CausalAttentionArgs; k and v may hold more keys
  View start;    // [B], i32: keys before the first query; absent: none
  MutView o;
  MutView lse;  // absent: not computed
  float scale;
  View documents = {};  // this and the next two as in CausalAttentionArgs; not together with `start`
  int64_t window = 0;
  float soft_cap = 0;
  View pages = {};  // page tables of k and v, only with `start` (weft/ops/kv_pages.h); absent: contiguous
};

namespace cuda {
void attention_forward(Stream& stream, const AttentionForward& args);
}
namespace metal {
void attention_forward(Stream& stream, const AttentionForward& args);
}

}  // namespace weft
