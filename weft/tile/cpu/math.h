// Vector polynomials of our own: the same operations in the same order on every target, so the same bits. Each is
// written per register (V) and lifted to a block. Accuracy: docs/numerics.md.

#if defined(WEFT_TILE_CPU_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_MATH_H_
#undef WEFT_TILE_CPU_MATH_H_
#else
#define WEFT_TILE_CPU_MATH_H_
#endif

#include "weft/tile/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }

// c[0] + c[1] x + c[2] x^2 + ..., by Horner with one rounding a step.
template <int N>
HWY_INLINE V polynomial(V x, const float (&c)[N]) {
  V r = constant(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) r = hn::MulAdd(r, x, constant(c[i]));
  return r;
}

// Clamps without losing NaN: a comparison with NaN is false, so NaN stays.
HWY_INLINE V clamp(V x, float low, float high) {
  const V lo = constant(low), hi = constant(high);
  x = hn::IfThenElse(hn::Lt(x, lo), lo, x);
  return hn::IfThenElse(hn::Lt(hi, x), hi, x);
}

// p * 2^n for integral n in [-252, 254], in two exact steps so that a subnormal result rounds once, at the end.
HWY_INLINE V scale_by_power(V p, V n) {
  const DI di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

// e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; e^r = 1 + r + r^2 P(r).
HWY_INLINE V exp(V x) {
  const V clamped = clamp(x, -104.0f, 89.0f);  // e^-104 rounds to 0, e^89 to infinity
  const V n = hn::Round(hn::Mul(clamped, constant(1.44269504088896341f)));
  V r = hn::MulAdd(n, constant(-0.693359375f), clamped);  // ln 2 in two parts; the first is exact times n
  r = hn::MulAdd(n, constant(2.12194440054690583e-4f), r);
  constexpr float kP[] = {0.5f, 1.66666666e-1f, 4.16666396e-2f, 8.33344740e-3f, 1.38853293e-3f, 1.98760034e-4f};
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(r, kP), r), constant(1.0f));
  return scale_by_power(p, n);
}

// ln x = e ln 2 + ln m, m in [2/3, 4/3), with s = (m - 1) / (m + 1): ln m = 2 atanh s = 2 s + s^3 Q(s^2).
HWY_INLINE V log(V x) {
  const DI di;
  const auto tiny = hn::Lt(x, constant(0x1p-126f));  // subnormal: scale into the normal range first
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, constant(0x1p24f)), x);
  const auto bits = hn::BitCast(di, scaled);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f2aaaab)));
  const V m = hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(e)));
  const V exponent = hn::Sub(hn::ConvertTo(D(), e), hn::IfThenElseZero(tiny, constant(24.0f)));
  const V f = hn::Sub(m, constant(1.0f));
  const V s = hn::Div(f, hn::Add(m, constant(1.0f)));
  const V s2 = hn::Mul(s, s);
  constexpr float kQ[] = {0.666666666666f, 0.399999999f, 0.285714886f, 0.221973274f, 0.195238285f};
  // ln m = f - s (f - s^2 Q(s^2)): f is exact, so the correction's error is all there is.
  const V correction = hn::Mul(s, hn::NegMulAdd(s2, polynomial(s2, kQ), f));
  V r = hn::MulAdd(exponent, constant(-2.12194440054690583e-4f), hn::Neg(correction));
  r = hn::Add(r, f);
  r = hn::MulAdd(exponent, constant(0.693359375f), r);
  const V infinity = constant(HUGE_VALF);
  r = hn::IfThenElse(hn::Eq(x, infinity), infinity, r);
  r = hn::IfThenElse(hn::Eq(x, constant(0.0f)), hn::Neg(infinity), r);
  return hn::IfThenElse(hn::Or(hn::Lt(x, constant(0.0f)), hn::IsNaN(x)), constant(__builtin_nanf("")), r);
}

// |x| < 0.625: x + x^3 R(x^2); above: 1 - 2 / (e^{2|x|} + 1), with the sign of x.
HWY_INLINE V tanh(V x) {
  const V a = hn::Abs(x), x2 = hn::Mul(x, x);
  constexpr float kR[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f, 2.06390887954e-2f, -5.70498872745e-3f};
  const V small = hn::MulAdd(hn::Mul(x, x2), polynomial(x2, kR), x);
  const V e = exp(hn::Add(a, a));
  const V large = hn::Sub(constant(1.0f), hn::Div(constant(2.0f), hn::Add(e, constant(1.0f))));
  return hn::IfThenElse(hn::Lt(a, constant(0.625f)), small, hn::CopySign(large, x));
}

// 1 / (1 + e^-x).
HWY_INLINE V sigmoid(V x) { return hn::Div(constant(1.0f), hn::Add(constant(1.0f), exp(hn::Neg(x)))); }

HWY_INLINE F32x16 exp(F32x16 x) {
  for (int i = 0; i < kParts; ++i) x.part[i] = exp(x.part[i]);
  return x;
}
HWY_INLINE F32x16 log(F32x16 x) {
  for (int i = 0; i < kParts; ++i) x.part[i] = log(x.part[i]);
  return x;
}
HWY_INLINE F32x16 tanh(F32x16 x) {
  for (int i = 0; i < kParts; ++i) x.part[i] = tanh(x.part[i]);
  return x;
}
HWY_INLINE F32x16 sigmoid(F32x16 x) {
  for (int i = 0; i < kParts; ++i) x.part[i] = sigmoid(x.part[i]);
  return x;
}

// One value, with the bits that a vector lane gives.
HWY_INLINE float exp(float x) { return hn::GetLane(exp(constant(x))); }
HWY_INLINE float log(float x) { return hn::GetLane(log(constant(x))); }

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
