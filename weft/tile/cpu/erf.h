// The error function, in the manner of math.h.

#if defined(WEFT_TILE_CPU_ERF_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ERF_H_
#undef WEFT_TILE_CPU_ERF_H_
#else
#define WEFT_TILE_CPU_ERF_H_
#endif

#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// |x| < 1: x + x P(x^2), error of the fit 2^-29.4. Above: 1 - e^-g(|x|), g a fit of -ln(1 - erf) on [1, 4], 2^-29.8.
// Both are computed and one is chosen: near 0 the second has no relative precision.
HWY_INLINE V erf(V x) {
  constexpr float kP[] = {0.128379166f, -0.37612626f, 0.112835787f, -0.0268533472f, 0.0051871622f, -0.00079978531f, 7.80690389e-05f};
  const V small = hn::MulAdd(x, polynomial(hn::Mul(x, x), kP), x);

  constexpr float kMinusG[] = {-0.000341520383f, -1.12708914f,    -0.63814503f,   -0.103106461f,
                               0.0218378566f,    -0.00294758822f, 0.000186370162f};
  const V a = hn::Abs(x);
  const V minus_g = polynomial(at_most(a, 4.0f), kMinusG);  // erf 4 rounds to 1
  const Rounded n = round_product<127>(minus_g, kLog2E);
  const V tail = hn::Mul(exp_reduced(less_ln2(minus_g, n.n)), power_of_two(n.bits));
  const V large = hn::CopySign(hn::Sub(constant(1.0f), tail), x);
  return hn::IfThenElse(hn::Lt(a, constant(1.0f)), small, large);
}

WEFT_LIFT(erf)

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
