// The activation of a kind on sixteen floats: for this op's kernels and for the epilogues of others.

#if defined(WEFT_OPS_ACTIVATION_CPU_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_ACTIVATION_CPU_H_
#undef WEFT_OPS_ACTIVATION_CPU_H_
#else
#define WEFT_OPS_ACTIVATION_CPU_H_
#endif

#include "weft/ops/activation/kind.h"
#include "weft/tile/cpu/activation.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <Activation kKind>
HWY_INLINE F32x16 activate(F32x16 x) {
  if constexpr (kKind == Activation::relu) return relu(x);
  if constexpr (kKind == Activation::silu) return silu(x);
  if constexpr (kKind == Activation::gelu_tanh) return gelu_tanh(x);
  return x;
}

template <Activation kKind>
HWY_INLINE F32x16 activation_slope(F32x16 x) {
  if constexpr (kKind == Activation::relu) return relu_slope(x);
  if constexpr (kKind == Activation::silu) return silu_slope(x);
  if constexpr (kKind == Activation::gelu_tanh) return gelu_tanh_slope(x);
  return splat(1.0f);
}

// Calls f.operator()<kind>(), so that a loop is compiled for each kind instead of asking in every step.
template <class F>
void with_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::none: return f.template operator()<Activation::none>();
    case Activation::relu: return f.template operator()<Activation::relu>();
    case Activation::silu: return f.template operator()<Activation::silu>();
    case Activation::gelu_tanh: return f.template operator()<Activation::gelu_tanh>();
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
