#include "weft/ops/kv_append/kv_append.h"

#include "weft/ops/heads.h"

namespace weft {
namespace {
constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};
}

void kv_append(Stream& stream, const KvAppendArgs& args) {
  const Contract contract(KvAppendArgs::kOp, stream);
  contract.operand("k", args.k, kFloats).operand("v", args.v, kFloats);
  contract.operand("k_cache", args.k_cache, kFloats).operand("v_cache", args.v_cache, kFloats);
  require_heads(contract, "k", args.k);
  require_heads(contract, "k_cache", args.k_cache);
  const int64_t B = args.k.shape[0], T = args.k.shape[1], Hkv = args.k.shape[2], D = args.k.shape[3], capacity = args.k_cache.shape[1];
  contract.require(T <= capacity, "there are ", T, " tokens for a cache of ", capacity, " positions");
  contract.shape("v", args.v, args.k.shape).same_dtype("v", args.v, "k", args.k);
  contract.shape("k_cache", args.k_cache, Shape{B, capacity, Hkv, D}).same_dtype("k_cache", args.k_cache, "k", args.k);
  contract.shape("v_cache", args.v_cache, args.k_cache.shape).same_dtype("v_cache", args.v_cache, "k", args.k);
  require_heads(contract, "v", args.v);
  require_heads(contract, "v_cache", args.v_cache);
  contract.operand("start", args.start, {DType::i32}).shape("start", args.start, Shape{B});
  contract.require(args.start.contiguous(), "start must be contiguous, got strides ", args.start.strides);
  stream.device().kernels().kv_append(stream, args);
}

Cost cost(const KvAppendArgs& a) { return {2 * (bytes_of(a.k) + bytes_of(a.v)) + bytes_of(a.start), 0}; }

}  // namespace weft
