// The float64 truth of activations, for the specs of ops that apply one.
#pragma once

#include <cmath>

#include "weft/ops/elementwise/kind.h"
#include "weft/spec/truth.h"

namespace weft::spec {

struct ActivationTruth {
  double y, slope;                      // f(x), f'(x)
  double y_error, slope_error;          // bounds of a kernel's error for the same x: absolute, before rounding to its dtype
  double y_flush = 0, slope_flush = 0;  // what is missing of each where s or 1 - s is too small to be more than 0
};

// The argument of the logistic function: t(x), its slope, and how many roundings the kernel's t errs by.
struct LogisticArgument {
  double t, slope, roundings, slope_roundings;
};
inline LogisticArgument logistic_argument(Activation kind, double x) {
  if (kind == Activation::silu) return {x, 1, 0, 0};
  const double k = 2 * std::sqrt(2 / std::acos(-1.0)), c = 0.044715;
  // x^2, two rounded constants, an fma and a product; in the slope one more constant's product.
  return {k * (x + c * x * x * x), k * (1 + 3 * c * x * x), 4, 5};
}

// With t off by d |t| u, s is off by s (1 - s) d |t| u and 1 - s by as much. Below the smallest normal number s errs by two
// and a half units of 2^-149 (docs/numerics.md). The 1.01 stands for products of errors: 4 |t| u is below 0.0001 wherever s is not 0 or 1.
inline ActivationTruth activation_truth(Activation kind, double x) {
  // sigmoid errs by two and a half units in the last place: five roundings. So does 1 - s, made of it by one more.
  constexpr double kLogistic = 5 + 1;
  const double u = 1.01 * unit_roundoff(DType::f32), tiny = 2.5 * 0x1p-149;
  if (kind == Activation::none) return {x, 1, 0, 0};
  if (kind == Activation::relu) return {std::isnan(x) || x > 0 ? x : 0, std::isnan(x) ? x : double(x > 0), 0, 0};
  const LogisticArgument a = logistic_argument(kind, x);
  const double s = 1 / (1 + std::exp(-a.t)), rest = 1 / (1 + std::exp(a.t));
  ActivationTruth v;
  v.y = x * s;
  v.y_error = std::abs(v.y) * u * (kLogistic + a.roundings * std::abs(a.t) * rest + 1) + std::abs(x) * tiny;
  const double smallest = 1.01 * smallest_normal(DType::f32);
  if (s < smallest) v.y_flush = std::abs(v.y);
  if (std::abs(x) > 150) {  // the limits: the equation has infinity times 0 there
    v.slope = x > 0;
    v.slope_error = 0;
    return v;
  }
  // slope = s (1 + m), m = x t' (1 - s): the errors of s on all of it, those of m on its part.
  const double m = x * a.slope * rest, scale = 1 + std::abs(m);
  v.slope = s * (1 + m);
  v.slope_error = s * u *
                      (scale * (kLogistic + a.roundings * std::abs(a.t) * rest + 2) +
                       std::abs(m) * (kLogistic + a.roundings * std::abs(a.t) * s + a.slope_roundings)) +
                  scale * tiny;
  v.slope_flush = s < smallest ? std::abs(v.slope) : rest < smallest ? std::abs(s * m) : 0;
  return v;
}

}  // namespace weft::spec
