#include "weft/ops/kv_attention/kv_attention.h"

#include <cmath>

#include "weft/tensor/node.h"

namespace weft {

void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t T = args.q.shape[1], H = args.q.shape[2], D = args.q.shape[3], S = args.k_cache.shape[1], K = args.k_cache.shape[2];
  contract.require(1 <= D && D <= KvAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ", KvAttentionArgs::kMostHeadDim);
  contract.require(K == 0 ? H == 0 : H % K == 0, "q has ", H, " heads, which is no multiple of the ", K, " heads of k_cache");
  contract.require(T <= S, "there are ", T, " queries for a cache of ", S, " positions");
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().kv_attention(stream, args);
}

Tensor kv_attention(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, const Tensor& start, float scale) {
  Device& device = q.device();
  if (scale == 0) scale = 1 / std::sqrt(float(q.rank() ? std::max<int64_t>(1, q.shape().back()) : 1));
  Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  kv_attention(
      device.stream(),
      {.q = q.view(), .k_cache = k_cache.view(), .v_cache = v_cache.view(), .start = start.view(), .o = o.mut_view(), .scale = scale});
  record("kv_attention", {&q, &k_cache, &v_cache}, {&o}, NotDifferentiable{"the cache is for inference; training uses causal_attention"});
  return o;
}

}  // namespace weft
