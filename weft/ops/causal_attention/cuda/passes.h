// The two passes over a batch, plain or with options, which are compiled apart.
#pragma once

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/cuda/sequence.cuh"
#include "weft/ops/causal_attention/forward_pass.h"

namespace weft::cuda {

// Options of a launch as the host knows them.
struct LaunchOptions {
  AttentionRule rule = {};
  int64_t documents = 0;  // how many, if there are lengths of them

  // Slots for tiles of a sequence of T tokens (sequence.cuh).
  int slots(int64_t T, int tile) const { return int(rule.documents ? T / tile + documents : (T + tile - 1) / tile); }
  int64_t sequences(int64_t B) const { return rule.documents ? documents : B; }
};

template <bool kOptions>
void forward_pass(Stream& stream, const Launch& launch, const AttentionForward& a, const LaunchOptions& options);
// delta: o . do of each row, [B, H, T].
template <bool kOptions>
void backward_pass(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const LaunchOptions& options,
                   const float* delta);

extern template void forward_pass<true>(Stream&, const Launch&, const AttentionForward&, const LaunchOptions&);
extern template void backward_pass<true>(Stream&, const Launch&, const CausalAttentionBackwardArgs&, const LaunchOptions&, const float*);

}  // namespace weft::cuda
