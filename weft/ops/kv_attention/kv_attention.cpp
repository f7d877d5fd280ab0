#include "weft/ops/kv_attention/kv_attention.h"

#include <algorithm>
#include <cmath>

#include "weft/tensor/node.h"

namespace weft {

Cost cost(const KvAttentionArgs& a) {
  const int64_t positions = kv_capacity(a.k_cache, a.pages),
                seen = a.window > 0 ? std::min(positions, a.window + a.q.shape[1] - 1) : positions;
  const double unseen_bytes = double(positions - seen) / std::max(1.0, double(positions)) * double(size_of(a.k_cache.dtype)) *
                              double(a.k_cache.numel() + a.v_cache.numel());
  return {operand_bytes(a) - unseen_bytes, 4.0 * double(a.q.numel()) * double(a.window > 0 ? std::min(positions, a.window) : positions)};
}

void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t T = args.q.shape[1], H = args.q.shape[2], D = args.q.shape[3], K = args.k_cache.shape[2];
  check_pages(contract, args.k_cache, args.pages, args.q.shape[0]);
  const int64_t S = kv_capacity(args.k_cache, args.pages);
  contract.require(1 <= D && D <= KvAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ", KvAttentionArgs::kMostHeadDim);
  contract.require(K == 0 ? H == 0 : H % K == 0, "q has ", H, " heads, which is no multiple of the ", K, " heads of k_cache");
  contract.require(T <= S, "there are ", T, " queries for a cache of ", S, " positions");
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  contract.require(args.window >= 0, "window is ", args.window, ", expected a number of keys, or 0 for none");
  contract.require(std::isfinite(args.soft_cap) && args.soft_cap >= 0, "soft_cap is ", args.soft_cap,
                   ", expected a positive number, or 0 for none");
  if (args.lse && stream.device().name().starts_with("cuda"))
    fail(ErrorCode::unsupported, KvAttentionArgs::kOp,
         "lse is not computed on CUDA yet: a model with attention sinks cannot read a cache there");
  stream.device().kernels().kv_attention(stream, args);
}

Tensor kv_attention(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, const Tensor& start, const KvAttentionOptions& options) {
  Device& device = q.device();
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(float(q.rank() ? std::max<int64_t>(1, q.shape().back()) : 1));
  Tensor o = Tensor::empty(device, q.shape(), q.dtype());
  kv_attention(device.stream(), {.q = q.view(),
                                 .k_cache = k_cache.view(),
                                 .v_cache = v_cache.view(),
                                 .start = start.view(),
                                 .o = o.mut_view(),
                                 .scale = scale,
                                 .window = options.window,
                                 .soft_cap = options.soft_cap,
                                 .pages = options.pages ? options.pages.view() : View()});
  record("kv_attention", {&q, &k_cache, &v_cache}, {&o}, NotDifferentiable{"the cache is for inference; training uses causal_attention"});
  return o;
}

}  // namespace weft
