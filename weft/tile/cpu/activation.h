// Activation functions and their slopes on sixteen floats. The equations are in weft/ops/activation/activation.h; which
// function a kind stands for, in weft/ops/activation/cpu.h.

#if defined(WEFT_TILE_CPU_ACTIVATION_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ACTIVATION_H_
#undef WEFT_TILE_CPU_ACTIVATION_H_
#else
#define WEFT_TILE_CPU_ACTIVATION_H_
#endif

#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

HWY_INLINE F32x16 clamp(F32x16 x, float low, float high) {
  for (int i = 0; i < kParts; ++i) x.part[i] = clamp(x.part[i], low, high);
  return x;
}

// s(t) = 1 / (1 + e^-t) and 1 - s(t). With e = e^-|t| <= 1 neither overflows nor cancels: both keep their relative
// precision down to the smallest normal number.
struct Logistic {
  F32x16 s, rest;
};
HWY_INLINE Logistic logistic(F32x16 t) {
  const F32x16 one = splat(1.0f);
  const Mask16 negative = t < zero();
  const F32x16 e = exp(select(negative, t, zero() - t)), scale = one / (one + e);
  return {select(negative, e, one) * scale, select(negative, one, e) * scale};
}

HWY_INLINE F32x16 relu(F32x16 x) { return select(x < zero(), zero(), x); }  // a NaN stays
HWY_INLINE F32x16 relu_slope(F32x16 x) {
  const F32x16 not_positive = select(x < splat(0x1p-149f), zero(), x);  // a NaN is in neither half, and stays
  return select(zero() < x, splat(1.0f), not_positive);
}

HWY_INLINE F32x16 silu(F32x16 x) { return x * logistic(x).s; }
HWY_INLINE F32x16 silu_slope(F32x16 x) {
  const Logistic l = logistic(x);
  // Past 128 the rest is 0 (or s is), and the clamp keeps infinity from meeting it.
  return l.s * fma(clamp(x, -128.0f, 128.0f), l.rest, splat(1.0f));
}

// t = x P(x^2), t' = P + 2 x^2 P', P(q) = 2 sqrt(2 / pi) (1 + 0.044715 q). Past |x| = 16, |t| > 300: s is 0 or 1.
inline constexpr float kGelu = 1.5957691216057308f, kGeluCubic = 0.071354816272600f;

HWY_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 c = clamp(x, -16.0f, 16.0f);
  return x * logistic(c * fma(c * c, splat(kGeluCubic), splat(kGelu))).s;
}
HWY_INLINE F32x16 gelu_tanh_slope(F32x16 x) {
  const F32x16 c = clamp(x, -16.0f, 16.0f), q = c * c;
  const Logistic l = logistic(c * fma(q, splat(kGeluCubic), splat(kGelu)));
  return l.s * fma(c * fma(q, splat(3 * kGeluCubic), splat(kGelu)), l.rest, splat(1.0f));
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
