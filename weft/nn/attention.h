// State that the attention layers of one forward pass share, and attention itself, with or without a cache and dropout.
#pragma once

#include <functional>

#include "weft/nn/kv_cache.h"
#include "weft/nn/positions.h"

namespace weft {

// An intermediate result of a forward pass, [B, T, ...], as a PassObserver sees it; perhaps columns of a wider tensor, so not contiguous.
// The names are the same with and without a cache.
struct Intermediate {
  int64_t layer;  // config().layers: after the last block
  const char* name;
  const Tensor& value;  // may be overwritten after the call
};
using PassObserver = std::function<void(const Intermediate&)>;

// One forward pass of ids [B, T] through a model.
struct Pass {
  int64_t B = 0, T = 0;
  Positions* positions = nullptr;  // the model's
  KvPass* kv = nullptr;            // null: every position attends to those before it in the pass
  Tensor dropout;                  // a random state (weft/ops/uniform); undefined: no dropout
  const PassObserver* observer = nullptr;
  bool recompute = false;  // run each block again in the backward instead of keeping its activations
  bool balance = false;    // sum router probabilities and counts for the load-balancing loss
  Tensor real = {};        // mask for `balance`, f32 [B T, 1]: 1 for a token, 0 for padding; undefined: no padding
  // Packed documents, with B = 1 and no cache: cumulative lengths, i32 [n + 1] (weft/ops/causal_attention), and the position of each token
  // in its document, i32 [T]. Undefined: one document a sequence.
  Tensor documents = {}, document_positions = {};
  std::vector<AdapterRows> adapters = {};  // the named adapters of all sequences; empty: none

  void see(int64_t layer, const char* name, const Tensor& value) const {
    if (observer && *observer) (*observer)({layer, name, value});
  }
  LoraUse lora() const { return {dropout, adapters}; }
  Tensor start() const { return kv ? kv->start() : Tensor(); }
};

// A window of at least the cache's capacity has no effect.
struct AttendOptions {
  int64_t layer = 0;   // of the cache
  float scale = 0;     // 0: 1 / sqrt(D)
  float dropout = 0;   // of the probabilities, if the pass has a random state
  uint32_t site = 0;   // of the random numbers
  int64_t window = 0;  // i attends to j only if i - window < j <= i; 0: none
  float soft_cap = 0;  // scores are cap tanh(score / cap); 0: none
  Tensor sinks = {};   // [H]: an extra softmax logit per head, without a value (attention_sinks.h); undefined: none
};

// q [B, T, H, D], k and v [B, T, Hkv, D] of the new tokens: o [B, T, H, D].
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options = {});

// The same for k and v that are already in the cache.
Tensor attend_cached(const Tensor& q, const Pass& pass, const AttendOptions& options);

// The same for q, k and v side by side in one tensor [B, T, H + 2 Hkv, D] (weft/ops/packed_attention).
Tensor attend_packed(const Tensor& qkv, int64_t kv_heads, const Pass& pass, const AttendOptions& options = {});

}  // namespace weft
