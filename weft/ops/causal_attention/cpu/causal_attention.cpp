// Two sides of one idea: the scores of a tile of 64 by 64 lie in vectors along one side, and the other side passes by in
// rows that are only ever broadcast, so nothing is transposed but the side that stays. In the forward pass the queries
// stay (forward.h), in the backward pass the keys (backward.h). On the diagonal half of the tile is left out. bf16 is
// multiplied in words of two where the CPU has an instruction or a unit for them, else widened (operands.h).
#include "weft/ops/causal_attention/causal_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/causal_attention/cpu/causal_attention.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/causal_attention/cpu/backward.h"
#include "weft/ops/causal_attention/cpu/forward.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// f.operator()<In>() for the way in which operands of `dtype` are multiplied here.
template <class F>
void with_operands(DType dtype, F f) {
  if (dtype == DType::f32) return f.template operator()<InFloats<float>>();
#if WEFT_HAS_DOT
  if (bf16_dot() == Bf16Dot::hardware) return f.template operator()<InPairs<HardwareDot>>();
#endif
  if (bf16_dot() == Bf16Dot::amx || bf16_dot() == Bf16Dot::emulated_amx) return f.template operator()<InPairs<AmxDot>>();
  if (bf16_dot() == Bf16Dot::emulated) return f.template operator()<InPairs<EmulatedDot>>();
  f.template operator()<InFloats<bf16>>();
}

}  // namespace

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
