// Activation functions on sixteen floats, for the end of a kernel that has the value in a register. The equations, and
// the functions on tensors, are in weft/ops/elementwise/functions.h.

#if defined(WEFT_TILE_CPU_ACTIVATION_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ACTIVATION_H_
#undef WEFT_TILE_CPU_ACTIVATION_H_
#else
#define WEFT_TILE_CPU_ACTIVATION_H_
#endif

#include "weft/tile/activation.h"
#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

HWY_INLINE F32x16 clamp(F32x16 x, float low, float high) {
  for (int i = 0; i < kParts; ++i) x.part[i] = clamp(x.part[i], low, high);
  return x;
}

HWY_INLINE F32x16 relu(F32x16 x) { return select(x < zero(), zero(), x); }  // a NaN stays

HWY_INLINE F32x16 silu(F32x16 x) { return x * sigmoid(x); }

// x sigmoid(t), t = x P(x^2), P(q) = 2 sqrt(2 / pi) (1 + 0.044715 q). Past |x| = 16, |t| > 300: sigmoid is 0 or 1.
HWY_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 c = clamp(x, -16.0f, 16.0f);
  return x * sigmoid(c * fma(c * c, splat(0.071354816272600f), splat(1.5957691216057308f)));
}

template <Activation kKind>
HWY_INLINE F32x16 activate(F32x16 x) {
  switch (kKind) {
    case Activation::none: return x;
    case Activation::relu: return relu(x);
    case Activation::silu: return silu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
  }
  return x;
}

// Calls f.operator()<kind>(): a loop is compiled for each kind instead of branching in every step.
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
