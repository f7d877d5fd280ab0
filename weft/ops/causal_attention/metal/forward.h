// The forward pass over keys that may begin before the queries, as attention to a cache needs it for a whole prompt.
#pragma once

#include "weft/device/stream.h"
#include "weft/tensor/view.h"

namespace weft::metal {

struct AttentionForward {
  const char* op;
  View q, k, v;  // as CausalAttentionArgs; k and v may hold more keys
  View start;    // [B], i32: keys before the first query; absent: none
  MutView o;
  MutView lse;  // absent: not wanted
  float scale;
};
void attention_forward(Stream& stream, const AttentionForward& args);

}  // namespace weft::metal
