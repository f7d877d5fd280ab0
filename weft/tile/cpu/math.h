// Vector functions of our own, part one: the exponential and the logarithm, and what is built from them. The same
// operations in the same order on every target, so the same bits. Each is written per register (V) and lifted to a
// block and to one float. trig.h and erf.h hold the others. Measured errors: docs/numerics.md, "Vector functions".
//
// Coefficients are minimax fits of the named function on the named interval, in f32: the lowest is rounded first and
// the rest are fitted again around it.

#if defined(WEFT_TILE_CPU_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_MATH_H_
#undef WEFT_TILE_CPU_MATH_H_
#else
#define WEFT_TILE_CPU_MATH_H_
#endif

#include "weft/tile/cpu/simd.h"

// A block is its registers; one value gets the bits that a lane gets.
#define WEFT_LIFT(function)                                           \
  HWY_INLINE F32x16 function(F32x16 x) {                              \
    for (int i = 0; i < kParts; ++i) x.part[i] = function(x.part[i]); \
    return x;                                                         \
  }                                                                   \
  HWY_INLINE float function(float x) { return hn::GetLane(function(constant(x))); }

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

inline constexpr float kInfinity = __builtin_huge_valf();

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }

// c[0] + c[1] x + c[2] x^2 + ..., by Horner with one rounding a step.
template <int N>
HWY_INLINE V polynomial(V x, const float (&c)[N]) {
  V r = constant(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) r = hn::MulAdd(r, x, constant(c[i]));
  return r;
}

// Bounds that keep a NaN of x. x86 returns the second operand if either is NaN; Highway on Arm returns the number (minnm), so there it
// is a comparison, which NaN fails.
HWY_INLINE V at_most(V x, float high) {
  const V bound = constant(high);
#if HWY_ARCH_X86
  return hn::Min(bound, x);
#else
  return hn::IfThenElse(hn::Lt(bound, x), bound, x);
#endif
}
HWY_INLINE V at_least(V x, float low) {
  const V bound = constant(low);
#if HWY_ARCH_X86
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}
HWY_INLINE V clamp(V x, float low, float high) { return at_most(at_least(x, low), high); }

// n = round(x * factor), also as an integer: the low 22 bits of `bits` hold n + kBias. Adding 1.5 * 2^23 leaves no
// room for a fraction, so one fused multiply-add rounds and converts. For |n| < 2^21.
struct Rounded {
  V n;
  hn::Vec<DU> bits;
};
template <int kBias>
HWY_INLINE Rounded round_product(V x, float factor) {
  const V shift = constant(0x1.8p23f + kBias), shifted = hn::MulAdd(x, constant(factor), shift);
  return {hn::Sub(shifted, shift), hn::BitCast(DU(), shifted)};
}

// 2^n for n in [-126, 127], from bits biased by 127.
HWY_INLINE V power_of_two(hn::Vec<DU> bits) { return hn::BitCast(D(), hn::ShiftLeft<23>(bits)); }

// p * 2^n for n in [-252, 254], from bits biased by 254, rounded once. AVX-512 has it as an instruction; elsewhere two
// factors, of which the first is exact for p in [1/2, 2].
HWY_INLINE V scale_by_power(V p, Rounded n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return V{_mm512_scalef_ps(p.raw, n.n.raw)};
#else
  const auto half = hn::ShiftRight<1>(n.bits);
  return hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(n.bits, half)));
#endif
}

inline constexpr float kLog2E = 0x1.715476p0f;
inline constexpr float kLn2 = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;  // ln 2 = kLn2 + kLn2Low + 2^-57

// x - n ln 2, |n| < 2^8. The first step is exact: n kLn2 and x are multiples of 2^-25 and the difference is below 1/2.
HWY_INLINE V less_ln2(V x, V n) { return hn::NegMulAdd(n, constant(kLn2Low), hn::NegMulAdd(n, constant(kLn2), x)); }

// e^r, |r| <= ln 2 / 2: 1 + r + r^2 P(r), error of the fit 2^-28.2.
HWY_INLINE V exp_reduced(V r) {
  constexpr float kP[] = {1.0f, 1.0f, 0.49999994f, 0.166665211f, 0.0416682735f, 0.00836868491f, 0.00138201076f};
  return polynomial(r, kP);
}

// e^x = 2^n e^r, n = round(x / ln 2), r = x - n ln 2, for x in [-104, 89]: e^-104 rounds to 0, e^89 to infinity.
HWY_INLINE V exp_in_range(V x) {
  const Rounded n = round_product<254>(x, kLog2E);
  return scale_by_power(exp_reduced(less_ln2(x, n.n)), n);
}
HWY_INLINE V exp(V x) { return exp_in_range(clamp(x, -104.0f, 89.0f)); }
HWY_INLINE V exp_of_negative(V x) { return exp_in_range(at_least(x, -104.0f)); }  // x <= 0; above 89, any value

// 2^x = 2^n 2^r, n = round(x), r = x - n exactly; 2^r = 1 + r P(r), error of the fit 2^-28.3.
HWY_INLINE V exp2(V x) {
  x = clamp(x, -151.0f, 129.0f);
  const Rounded n = round_product<254>(x, 1.0f);
  constexpr float kP[] = {1.0f, 0.693147182f, 0.240226477f, 0.0555035993f, 0.00961850584f, 0.00133908063f, 0.000153264627f};
  return scale_by_power(polynomial(hn::Sub(x, n.n), kP), n);
}

// x = 2^e (1 + f), f in [-1/3, 1/3) and exact, for x > 0 and finite.
struct Binary {
  V e, f;
};
HWY_INLINE Binary split_binary(V x) {
  const DI di;
  const auto tiny = hn::Lt(x, constant(0x1p-126f));  // subnormal: scale into the normal range first
  const auto bits = hn::BitCast(di, hn::IfThenElse(tiny, hn::Mul(x, constant(0x1p24f)), x));
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f2aaaab)));  // the bits of 2/3
  const V m = hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(e)));
  return {hn::Sub(hn::ConvertTo(D(), e), hn::IfThenElseZero(tiny, constant(24.0f))), hn::Sub(m, constant(1.0f))};
}
// r = log(x) where x is positive and finite; elsewhere log(+inf) = +inf, log(0) = -inf, NaN for NaN and x < 0.
HWY_INLINE V log_or_limit(V r, V x) {
  const V zero = hn::Zero(D());
  r = hn::IfThenElse(hn::Lt(x, constant(kInfinity)), r, x);
  const V outside = hn::IfThenElse(hn::Eq(x, zero), constant(-kInfinity), constant(__builtin_nanf("")));
  return hn::IfThenElse(hn::Le(x, zero), outside, r);
}

// ln x = e ln 2 + ln(1 + f), ln(1 + f) = f + f^2 (-1/2 + f P(f)), error of the fit 2^-30. The large terms come last.
HWY_INLINE V log(V x) {
  const auto [e, f] = split_binary(x);
  constexpr float kP[] = {-0.5f,        0.333333343f,  -0.249998271f, 0.199996814f,  -0.166792959f,
                          0.143027171f, -0.121994182f, 0.107695557f,  -0.128301099f, 0.119584598f};
  const V rest = hn::MulAdd(hn::Mul(f, f), polynomial(f, kP), hn::Mul(e, constant(kLn2Low)));
  return log_or_limit(hn::MulAdd(e, constant(kLn2), hn::Add(f, rest)), x);
}

// log2 x = e + log2(1 + f), log2(1 + f) = f log2 e + f^2 Q(f), error of the fit 2^-29.7; log2 e in two parts.
HWY_INLINE V log2(V x) {
  const auto [e, f] = split_binary(x);
  constexpr float kQ[] = {-0.72134757f, 0.48089838f,   -0.360665709f, 0.288533539f,  -0.240809381f,
                          0.206360489f, -0.173844099f, 0.155220374f,  -0.193870217f, 0.173141748f};
  constexpr float kLog2ELow = 1.92596303e-08f;
  const V rest = hn::MulAdd(hn::Mul(f, f), polynomial(f, kQ), hn::Mul(f, constant(kLog2ELow)));
  return log_or_limit(hn::Add(e, hn::MulAdd(f, constant(kLog2E), rest)), x);
}

// y = num / d with the roundings of y and of d = 1 + e, 0 <= e <= 1, taken back: what is left of num - y (1 + e), over
// 1 + e, which is near enough to 1.
HWY_INLINE V mended_quotient(V y, V num, V d, V e) {
  const V lost = hn::Add(hn::Sub(constant(1.0f), d), e);  // 1 + e - d, exactly
  return hn::Add(y, hn::NegMulAdd(y, lost, hn::NegMulAdd(y, d, num)));
}

// tanh |x| = u / (u + 1), u = (e^{2|x|} - 1) / 2 = 2^n q(r) + (2^n - 1) / 2, r = |x| - n ln 2 / 2, |r| <= ln 2 / 4, with
// q(r) = (e^{2r} - 1) / 2 = r + r^2 P(r), error of the fit 2^-31: relative precision down to 0 without a second branch.
HWY_INLINE V tanh(V x) {
  const V a = at_most(hn::Abs(x), 10.0f);  // tanh 10 rounds to 1
  const Rounded n = round_product<127>(a, 2 * kLog2E);
  const V r = hn::NegMulAdd(n.n, constant(kLn2Low / 2), hn::NegMulAdd(n.n, constant(kLn2 / 2), a));
  constexpr float kP[] = {1.0f, 0.666666627f, 0.333331943f, 0.133336708f, 0.0445834957f, 0.0126485648f};
  const V q = hn::MulAdd(hn::Mul(r, r), polynomial(r, kP), r);
  const V power = power_of_two(n.bits), half = constant(0.5f);
  const V u = hn::MulAdd(power, q, hn::MulSub(power, half, half));
  const V one = constant(1.0f), d = hn::Add(u, one), y = hn::Div(u, d);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(0.5f)), mended_quotient(y, u, d, u), y), x);
}

// 1 / (1 + e^-x) = (x < 0 ? e : 1) / (1 + e), e = e^-|x|: nothing overflows, and subnormal results are right. The sum and
// the quotient round once each beside the exponential; taking that back costs 21 to 30 % of the time.
HWY_INLINE V sigmoid(V x) {
  const V one = constant(1.0f), minus_abs = hn::Or(x, constant(-0.0f)), e = exp_of_negative(minus_abs);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(D())), e, one), hn::Add(one, e));
}

// 1 / sqrt(x), from the two correctly rounded operations.
HWY_INLINE V rsqrt(V x) { return hn::Div(constant(1.0f), hn::Sqrt(x)); }

WEFT_LIFT(exp)
WEFT_LIFT(exp_of_negative)
WEFT_LIFT(exp2)
WEFT_LIFT(log)
WEFT_LIFT(log2)
WEFT_LIFT(tanh)
WEFT_LIFT(sigmoid)
WEFT_LIFT(rsqrt)

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
