// Attention to a cache in the order of causal_attention (weft/tile/cpu/order.h): a position has the same bits whether its tokens came at
// once, in chunks or one by one. Prompts have queries as lanes (prompt.h), decode steps keys and then D (decode.h).
#include "weft/ops/kv_attention/kv_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/kv_attention/cpu/kv_attention.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/kv_attention/cpu/decode.h"
#include "weft/ops/kv_attention/cpu/prompt.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

bool starts_in_range(Stream& stream, const KvAttentionArgs& a) {
  const int64_t Tq = a.q.shape[1], capacity = a.k_cache.shape[1];
  for (int64_t b = 0; b < a.q.shape[0]; ++b) {
    const int64_t start = data<int32_t>(a.start)[b];
    if (start >= 0 && start + Tq <= capacity) continue;
    stream.report(
        join("start ", start, " of sequence ", b, " with ", Tq, " queries is out of range of a cache of ", capacity, " positions"));
    return false;
  }
  return true;
}

}  // namespace

void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  if (args.q.numel() == 0 || !starts_in_range(stream, args)) return;
  const Work w(args);
  with_operands(args.q.dtype, [&]<class In>() {
    if constexpr (!std::is_void_v<typename DotsOf<In>::Type>)
      if (Decode<In>::applies(w)) return attend_decode<In>(stream, w, args);
    attend_prompt<In>(stream, w, args);
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(kv_attention, KvAttentionArgs)
#endif
