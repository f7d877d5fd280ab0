// Vector functions, part two: sine, cosine, tangent and the angle of a point, in the manner of math.h. Right over the
// whole range of floats: beyond 2^17 the reduction of single lanes goes through integers.

#if defined(WEFT_TILE_CPU_TRIG_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_TRIG_H_
#undef WEFT_TILE_CPU_TRIG_H_
#else
#define WEFT_TILE_CPU_TRIG_H_
#endif

#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// pi / 2 = kHalfPi + kHalfPiMid + kHalfPiLow + 1.1e-23.
inline constexpr float kHalfPi = 0x1.921fb6p0f, kHalfPiMid = -0x1.777a5cp-25f, kHalfPiLow = -0x1.ee59dap-50f;
inline constexpr float kReduceLimit = 0x1p17f;

// a = n pi / 2 + r, |r| <= pi / 4, quadrant = n modulo 4 in the lowest two bits.
struct ReducedAngle {
  V r;
  hn::Vec<DU> quadrant;
};

// The same for one a > 2^17 (Payne and Hanek): a = m 2^s, and of 2 / pi only the bits that reach the quadrant and below
// matter, for the ones above contribute multiples of 4. Ninety-six bits from there leave the fraction of a 2 / pi good to
// 2^-61; no float comes closer than 2^-30 to a whole number of quarter turns, so r has all of its digits.
inline float reduce_large_angle(float a, uint32_t& quadrant) {
  constexpr uint32_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,   // the binary point follows the
                                     0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};  // first word
  uint32_t bits;
  std::memcpy(&bits, &a, sizeof(bits));
  if (bits >= 0x7f800000) return __builtin_nanf("");    // infinity or NaN
  const int s = int(bits >> 23) - 150, first = s + 30;  // s is in [-6, 104]; bit `first` times 2^s weighs 2
  const uint64_t m = (bits & 0x7fffff) | 0x800000;
  uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t pair = uint64_t(kTwoOverPi[first / 32 + i]) << 32 | kTwoOverPi[first / 32 + i + 1];
    window[i] = (pair << (first % 32)) >> 32;
  }
  // a 2 / pi modulo 4, with 62 bits of fraction; what runs over the top is a multiple of 4.
  const uint64_t turns = ((m * window[0]) << 32) + m * window[1] + ((m * window[2]) >> 32);
  quadrant = uint32_t((turns + (uint64_t(1) << 61)) >> 62);
  const int64_t fraction = int64_t(turns - (uint64_t(quadrant) << 62));
  return float(double(fraction) * (1.57079632679489662 * 0x1p-62));
}

// For a >= 0. Up to 2^17 the first step is exact (multiples of 2^-24 below 1); the others round r in its own last place,
// however small it is, and what the three parts miss of n pi / 2 is below 2^-32 of the smallest r that occurs.
HWY_INLINE ReducedAngle reduce_angle(V a) {
  const Rounded n = round_product<0>(a, 0.636619772f);
  V r = hn::NegMulAdd(n.n, constant(kHalfPi), a);
  r = hn::NegMulAdd(n.n, constant(kHalfPiMid), r);
  r = hn::NegMulAdd(n.n, constant(kHalfPiLow), r);
  const auto near = hn::Le(a, constant(kReduceLimit));
  if (HWY_LIKELY(hn::AllTrue(D(), near))) return {r, n.bits};

  alignas(64) float angle[kLanes], rest[kLanes];
  alignas(64) uint32_t quadrant[kLanes];
  hn::Store(a, D(), angle);
  hn::Store(r, D(), rest);
  hn::Store(n.bits, DU(), quadrant);
  for (int i = 0; i < kLanes; ++i)
    if (!(angle[i] <= kReduceLimit)) rest[i] = reduce_large_angle(angle[i], quadrant[i]);
  return {hn::Load(D(), rest), hn::Load(DU(), quadrant)};
}

struct SinCos {
  V sin, cos;
};
// On |r| <= pi / 4: sin r = r + r^3 S(r^2), error of the fit 2^-27.8; cos r = 1 + r^2 (-1/2 + r^2 C(r^2)), 2^-32.8.
// n quarter turns swap the two when n is odd, and change signs: sin in quadrants 2 and 3, cos in 1 and 2.
HWY_INLINE SinCos sincos(V x) {
  const DU du;
  const auto [r, quadrant] = reduce_angle(hn::Abs(x));
  constexpr float kS[] = {-0.166666538f, 0.00833210628f, -0.000195078828f};
  constexpr float kC[] = {1.0f, -0.5f, 0.0416666456f, -0.00138873013f, 2.44307503e-05f};
  const V z = hn::Mul(r, r);
  const V s = hn::MulAdd(hn::Mul(r, z), polynomial(z, kS), r), c = polynomial(z, kC);
  const auto odd = hn::RebindMask(D(), hn::TestBit(quadrant, hn::Set(du, 1)));
  const auto two = hn::Set(du, 2);
  const V sin_sign = hn::BitCast(D(), hn::ShiftLeft<30>(hn::And(quadrant, two)));
  const V cos_sign = hn::BitCast(D(), hn::ShiftLeft<30>(hn::And(hn::Add(quadrant, hn::Set(du, 1)), two)));
  const V x_sign = hn::And(x, constant(-0.0f));
  return {hn::Xor(hn::IfThenElse(odd, c, s), hn::Xor(sin_sign, x_sign)), hn::Xor(hn::IfThenElse(odd, s, c), cos_sign)};
}

HWY_INLINE V sin(V x) { return sincos(x).sin; }
HWY_INLINE V cos(V x) { return sincos(x).cos; }
HWY_INLINE V tan(V x) {
  const auto [s, c] = sincos(x);
  return hn::Div(s, c);
}

// The angle of the point (x, y) in [-pi, pi]. With t = min(|x|, |y|) / max(|x|, |y|): atan t = t + t^3 P(t^2), error of
// the fit 2^-31; a multiple of pi / 2 plus or minus that, by octant. Zeros and infinities as in C: signs count.
HWY_INLINE V atan2(V y, V x) {
  const V ax = hn::Abs(x), ay = hn::Abs(y), one = constant(1.0f), zero = hn::Zero(D());
  const auto steep = hn::Lt(ax, ay);
  const V low = hn::IfThenElse(steep, ax, ay), high = hn::IfThenElse(steep, ay, ax);
  V t = hn::IfThenElse(hn::Eq(low, high), one, hn::Div(low, high));  // also both infinite
  t = hn::IfThenElse(hn::Eq(high, zero), zero, t);                   // both zero
  constexpr float kP[] = {-0.333333284f, 0.199997157f,   -0.142803431f, 0.110612333f,    -0.0882146209f,
                          0.0676364899f, -0.0449832566f, 0.022777617f,  -0.00742536318f, 0.0011345282f};
  const V z = hn::Mul(t, t);
  V angle = hn::MulAdd(hn::Mul(t, z), polynomial(z, kP), t);

  const V x_sign = hn::And(x, constant(-0.0f));
  const auto left = hn::RebindMask(D(), hn::Lt(hn::BitCast(DI(), x), hn::Zero(DI())));
  const V turns = hn::IfThenElse(steep, one, hn::IfThenElseZero(left, constant(2.0f)));  // in units of pi / 2
  const V sign = hn::Xor(x_sign, hn::IfThenElseZero(steep, constant(-0.0f)));
  angle = hn::MulAdd(turns, constant(kHalfPi), hn::MulAdd(turns, constant(kHalfPiMid), hn::Xor(angle, sign)));
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), constant(__builtin_nanf("")), hn::CopySign(angle, y));
}

WEFT_LIFT(sin)
WEFT_LIFT(cos)
WEFT_LIFT(tan)

HWY_INLINE F32x16 atan2(F32x16 y, F32x16 x) {
  for (int i = 0; i < kParts; ++i) y.part[i] = atan2(y.part[i], x.part[i]);
  return y;
}
HWY_INLINE float atan2(float y, float x) { return hn::GetLane(atan2(constant(y), constant(x))); }

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
