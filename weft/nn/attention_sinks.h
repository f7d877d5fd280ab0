// Attention sinks: a learned logit of each head that joins the softmax over the keys and has no value (gpt-oss).
//
//   lse'_i = log(exp(lse_i) + exp(sink))      o'_i = sum over j of exp(s_ij - lse'_i) v_j = o_i exp(lse_i - lse'_i)
//
// They are applied to what attention without them returns, so every kernel and its order serves; o' is rounded once more. The gradients of
// q, k and v are those of attention with o' and lse' in place of o and lse, and
//   dsink = - sum over queries of exp(sink - lse'_i) (o'_i . do'_i).
#pragma once

#include "weft/nn/attention.h"

namespace weft {

// q [B, T, H, D], sinks [H]. Differentiable.
Tensor attend_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options);

// The same against the cache of the pass, which holds k and v. Throws `unsupported` on CUDA.
Tensor attend_cache_with_sinks(const Tensor& q, const Pass& pass, const AttendOptions& options);

}  // namespace weft
