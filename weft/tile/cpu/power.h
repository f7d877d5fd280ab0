// Vector functions, part four: log(1 + x) and powers, in the manner of math.h.

#if defined(WEFT_TILE_CPU_POWER_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_POWER_H_
#undef WEFT_TILE_CPU_POWER_H_
#else
#define WEFT_TILE_CPU_POWER_H_
#endif

#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// ln(1 + x) = ln u + (x - (u - 1)) / u, u = 1 + x rounded: the second term gives back what the rounding took. Where u is
// 1 it is x itself; at infinity and below -1 the logarithm alone is right.
HWY_INLINE V log1p(V x) {
  const V one = constant(1.0f), u = hn::Add(one, x);
  // The larger of 1 and x goes first, so that the difference is exact (Dekker).
  const auto small = hn::Lt(x, one);
  const V high = hn::IfThenElse(small, one, x), low = hn::IfThenElse(small, x, one);
  const V rest = hn::Div(hn::Sub(low, hn::Sub(u, high)), u);
  const V log_u = log(u);
  const V r = hn::IfThenElse(hn::Eq(u, one), x, hn::Add(log_u, rest));
  return hn::IfThenElse(hn::And(hn::Lt(hn::Zero(D()), u), hn::Lt(u, constant(kInfinity))), r, log_u);
}

// x^y = 2^{y log2 x} for finite x > 0, in float64: y log2 x reaches 150, so its error must stay far below that of a float.
template <class D64>
HWY_INLINE hn::Vec<D64> pow_positive(D64 d, hn::Vec<D64> x, hn::Vec<D64> y) {
  using W = hn::Vec<D64>;
  const hn::RebindToSigned<D64> di;
  const auto k = [d](double value) HWY_ATTR { return hn::Set(d, value); };
  // x = 2^e m, m in [sqrt(1/2), sqrt 2): log2 m = 2 log2 e atanh s, s = (m - 1) / (m + 1), |s| <= 0.1716.
  const auto bits = hn::BitCast(di, x);
  const auto e = hn::ShiftRight<52>(hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd)));
  const W m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(e)));
  const W s = hn::Div(hn::Sub(m, k(1)), hn::Add(m, k(1))), z = hn::Mul(s, s);
  W p = k(1.0 / 17);  // the series of atanh: the first term left out is below 2^-50 of the sum
  for (int i = 15; i >= 1; i -= 2) p = hn::MulAdd(p, z, k(1.0 / i));
  // e as a double: an integer of magnitude below 2^51, added to the bits of 1.5 * 2^52.
  const W shift = k(0x1.8p52), whole = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(di, shift), e)), shift);
  const W power = hn::Mul(y, hn::MulAdd(hn::Mul(s, k(2 * 1.4426950408889634)), p, whole));
  // 2^power: beyond the range of floats it stays beyond it.
  W c = hn::IfThenElse(hn::Lt(power, k(-400)), k(-400), power);
  c = hn::IfThenElse(hn::Lt(k(400), c), k(400), c);
  const W shifted = hn::Add(c, shift), n = hn::Sub(shifted, shift), r = hn::Mul(hn::Sub(c, n), k(0.6931471805599453));
  W q = k(1.0 / 39916800);  // the series of e^r, |r| <= 0.3466: the first term left out is below 2^-47
  constexpr double kFactorials[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800};
  for (int i = 10; i >= 0; --i) q = hn::MulAdd(q, r, k(1 / kFactorials[i]));
  const auto exponent = hn::ShiftLeft<52>(hn::Add(hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, shift)), hn::Set(di, 1023)));
  return hn::Mul(q, hn::BitCast(d, exponent));
}

// x^y with C's results at the edges: 1 where y is 0 or x is 1, even where the other is NaN; NaN for x < 0 and y not whole.
HWY_INLINE V pow(V x, V y) {
  const D d;
  const hn::Half<D> half;
  const hn::RepartitionToWide<D> wide;
  const V a = hn::Abs(x), zero = hn::Zero(d), one = constant(1.0f), infinity = constant(kInfinity);
  const auto low =
      hn::DemoteTo(half, pow_positive(wide, hn::PromoteTo(wide, hn::LowerHalf(half, a)), hn::PromoteTo(wide, hn::LowerHalf(half, y))));
  const auto high =
      hn::DemoteTo(half, pow_positive(wide, hn::PromoteTo(wide, hn::UpperHalf(half, a)), hn::PromoteTo(wide, hn::UpperHalf(half, y))));
  V r = hn::Combine(d, high, low);
  // |x| of 0 or infinity: 0 or infinity by the sign of y. |y| of infinity: by whether |x| is above 1.
  const auto y_negative = hn::Lt(y, zero);
  r = hn::IfThenElse(hn::Eq(a, zero), hn::IfThenElse(y_negative, infinity, zero), r);
  r = hn::IfThenElse(hn::Eq(a, infinity), hn::IfThenElse(y_negative, zero, infinity), r);
  const auto grows = hn::Xor(hn::Lt(one, a), y_negative);
  const V to_infinity = hn::IfThenElse(hn::Eq(a, one), one, hn::IfThenElse(grows, infinity, zero));
  r = hn::IfThenElse(hn::Eq(hn::Abs(y), infinity), to_infinity, r);
  // The sign: a negative x (or -0) keeps it for odd y. Whole: no fraction; odd: half of it has one.
  const V half_y = hn::Mul(y, constant(0.5f));
  const auto whole = hn::Eq(hn::Floor(y), y);
  const auto odd = hn::And(whole, hn::Not(hn::Eq(hn::Floor(half_y), half_y)));
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const V nan = constant(__builtin_nanf(""));
  const auto no_root = hn::And(hn::And(hn::Lt(x, zero), hn::Lt(a, infinity)), hn::Not(whole));
  r = hn::IfThenElse(hn::Or(no_root, hn::Or(hn::IsNaN(x), hn::IsNaN(y))), nan, r);
  return hn::IfThenElse(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), one, r);
}

WEFT_LIFT(log1p)

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
