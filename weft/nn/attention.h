// What the attention layers of one forward pass share, and the attention itself: with or without a cache, with or
// without dropout.
#pragma once

#include "weft/nn/kv_cache.h"
#include "weft/nn/positions.h"

namespace weft {

// One pass of ids [B, T] through a model.
struct Pass {
  int64_t B = 0, T = 0;
  Positions* positions = nullptr;  // the model's
  KvCache* cache = nullptr;        // null: every position attends to those before it in the pass
  Tensor dropout;                  // a random state (weft/ops/uniform); undefined: no dropout
  bool recompute = false;          // run each block again in the backward instead of keeping what it computed

  Tensor start() const { return cache ? cache->start() : Tensor(); }
};

struct AttendOptions {
  int64_t layer = 0;  // of the cache
  float scale = 0;    // 0: 1 / sqrt(D)
  float dropout = 0;  // of the probabilities, where the pass has a random state
  uint32_t site = 0;  // of the random numbers
};

// q [B, T, H, D], k and v [B, T, Hkv, D] of the new tokens: o [B, T, H, D].
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options = {});

// The same for q, k and v side by side in one tensor [B, T, H + 2 Hkv, D], as one projection makes them; its gradient is one
// tensor too, written in place.
Tensor attend_packed(const Tensor& qkv, int64_t kv_heads, const Pass& pass, const AttendOptions& options = {});

}  // namespace weft
