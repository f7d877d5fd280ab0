// Attention in tiles of 64 by 64 scores: vectors run along one side ("lanes"), which stays and is transposed once; the other side is
// streamed as rows that are broadcast, never transposed. The lanes are the queries in the forward pass (forward.h), the keys in the
// backward pass (backward.h). Half of a tile on the diagonal is left out. bf16 is multiplied in words of two if the CPU has
// AVX512_BF16 or AMX, else widened (operands.h).
#include "weft/ops/causal_attention/causal_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/causal_attention/cpu/causal_attention.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/causal_attention/cpu/backward.h"
#include "weft/ops/causal_attention/cpu/forward.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
void causal_attention(Stream& stream, const CausalAttentionArgs& args) {
  if (args.q.numel() == 0) return;
  with_operands(args.q.dtype, [&]<class In>() { forward<In>(stream, args); });
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args) {
  if (args.q.numel() == 0) return;  // then k is empty too, as H is a multiple of Hkv
  with_operands(args.q.dtype, [&]<class In>() { backward<In>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(causal_attention, CausalAttentionArgs)
WEFT_CPU_KERNEL(causal_attention_backward, CausalAttentionBackwardArgs)
#endif
