// Attention sinks (gpt-oss): each head has a learned logit, without a value, in the softmax over the keys.
//
//   lse'_i = log(exp(lse_i) + exp(sink))      o'_i = sum over j of exp(s_ij - lse'_i) v_j = o_i exp(lse_i - lse'_i)
//
// They are applied to the result of attention without sinks, so all attention kernels can be used; o' is rounded a second time. The
// gradients of q, k and v are those of attention with o' and lse' in place of o and lse, and
//   dsink = - sum over queries of exp(sink - lse'_i) (o'_i . do'_i).
#pragma once

#include "weft/nn/attention.h"

namespace weft {

// q [B, T, H, D], sinks [H]. Differentiable.
Tensor attend_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Pass& pass, const AttendOptions& options);

// The same for k and v in the cache of the pass. Throws `unsupported` on CUDA.
Tensor attend_cache_with_sinks(const Tensor& q, const Pass& pass, const AttendOptions& options);

}  // namespace weft
