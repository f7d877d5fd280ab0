// Keys and values of new tokens go into a cache, after what each sequence holds:
//
//   k_cache[b, start[b] + t] = k[b, t]          v_cache[b, start[b] + t] = v[b, t]
//
// Where they go is known on the device alone, so that a step can be captured and replayed. The bits are copied; every other
// position of the cache stays as it is. No gradient.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct KvAppendArgs {
  static constexpr const char* kOp = "kv_append";
  View k, v;                 // [B, T, Hkv, D], f32 or bf16; any strides over B, T, Hkv, unit stride over D
  View start;                // [B], i32, contiguous: 0 <= start[b] <= capacity - T, else the stream raises a fault
  MutView k_cache, v_cache;  // [B, capacity, Hkv, D] of the same dtype; strides likewise; k and v lie elsewhere
};

void kv_append(Stream& stream, const KvAppendArgs& args);
Cost cost(const KvAppendArgs& args);

}  // namespace weft
