// What the attention layers of one forward pass share, and the attention itself with or without a cache.
#pragma once

#include "weft/nn/kv_cache.h"

namespace weft {

// One pass of ids [B, T] through a model.
struct Pass {
  int64_t B = 0, T = 0;
  KvCache* cache = nullptr;  // null: every position attends to those before it in the pass
  Tensor dropout;            // a random state (weft/ops/uniform); undefined: no dropout
  bool recompute = false;    // run each block again in the backward instead of keeping what it computed

  Tensor start() const { return cache ? cache->start() : Tensor(); }
};

// q [B, T, H, D], k and v [B, T, Hkv, D] of the new tokens of `layer`: o [B, T, H, D]. scale = 0 means 1 / sqrt(D).
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t layer, const Pass& pass, float scale = 0);

}  // namespace weft
