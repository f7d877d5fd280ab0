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
void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  if (args.q.numel() == 0 || !cache_holds(stream, args.start, args.q.shape[1], args.k_cache, args.pages)) return;
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
