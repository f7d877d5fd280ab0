#include "weft/ops/kv_attention/kv_attention.h"

#include <cmath>

#include "weft/ops/heads.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {
constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};
}

void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  const Contract contract(KvAttentionArgs::kOp, stream);
  contract.operand("q", args.q, kFloats).operand("k_cache", args.k_cache, kFloats).operand("v_cache", args.v_cache, kFloats);
  contract.operand("o", args.o, kFloats);
  require_heads(contract, "q", args.q);
  require_heads(contract, "k_cache", args.k_cache);
  const int64_t B = args.q.shape[0], Tq = args.q.shape[1], H = args.q.shape[2], D = args.q.shape[3];
  const int64_t capacity = args.k_cache.shape[1], Hkv = args.k_cache.shape[2];
  contract.require(1 <= D && D <= KvAttentionArgs::kMostHeadDim, "head_dim is ", D, ", expected 1 to ", KvAttentionArgs::kMostHeadDim);
  contract.require(Hkv == 0 ? H == 0 : H % Hkv == 0, "q has ", H, " heads, which is no multiple of the ", Hkv, " heads of k_cache");
  contract.require(Tq <= capacity, "there are ", Tq, " queries for a cache of ", capacity, " positions");
  contract.shape("k_cache", args.k_cache, Shape{B, capacity, Hkv, D}).same_dtype("k_cache", args.k_cache, "q", args.q);
  contract.shape("v_cache", args.v_cache, args.k_cache.shape).same_dtype("v_cache", args.v_cache, "q", args.q);
  require_heads(contract, "v_cache", args.v_cache);
  contract.shape("o", args.o, args.q.shape).same_dtype("o", args.o, "q", args.q);
  require_heads(contract, "o", args.o);
  contract.operand("start", args.start, {DType::i32}).shape("start", args.start, Shape{B});
  contract.require(args.start.contiguous(), "start must be contiguous, got strides ", args.start.strides);
  contract.require(std::isfinite(args.scale), "scale is ", args.scale, ", expected a finite number");
  stream.device().kernels().kv_attention(stream, args);
}

Cost cost(const KvAttentionArgs& a) {
  return {bytes_of(a.q) + bytes_of(a.k_cache) + bytes_of(a.v_cache) + bytes_of(a.start) + bytes_of(a.o),
          4.0 * double(a.q.numel()) * double(a.k_cache.shape[1])};
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
