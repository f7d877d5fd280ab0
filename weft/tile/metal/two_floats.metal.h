// Numbers of about 48 bits as the unevaluated sum of two floats (Dekker, 1971), for the few values that all elements share and
// that f32 cannot hold well enough: Metal has no double. Every step is written with explicit fma, so that nothing depends on
// what the compiler fuses.
#pragma once

#include <metal_stdlib>

namespace weft {

struct TwoFloats {
  float high, low;  // |low| <= half an ulp of high
};

// a + b exactly.
inline TwoFloats two_sum(float a, float b) {
  const float sum = a + b, back = sum - a;
  return {sum, (a - (sum - back)) + (b - back)};
}
// The same where |a| >= |b|.
inline TwoFloats renormalised(float a, float b) {
  const float sum = a + b;
  return {sum, b - (sum - a)};
}

inline TwoFloats times(TwoFloats a, TwoFloats b) {
  const float product = a.high * b.high, error = metal::fma(a.high, b.high, -product);
  return renormalised(product, metal::fma(a.high, b.low, metal::fma(a.low, b.high, error)));
}
inline TwoFloats one_minus(TwoFloats a) {
  const TwoFloats sum = two_sum(1.0f, -a.high);
  return renormalised(sum.high, sum.low - a.low);
}
inline TwoFloats power(TwoFloats base, int exponent) {
  TwoFloats result = {1.0f, 0.0f};
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = times(result, base);
    base = times(base, base);
  }
  return result;
}

// a / b, rounded to f32 but for the last bit of the correction.
inline float divided(float a, TwoFloats b) {
  const float quotient = a / b.high, rest = metal::fma(-quotient, b.low, metal::fma(-quotient, b.high, a));
  return quotient + rest / b.high;
}
// 1 / sqrt(a): one Newton step on the f32 value, with its residual 1 - a y^2 in two floats.
inline float over_root(TwoFloats a) {
  const float y = 1.0f / metal::precise::sqrt(a.high);
  const TwoFloats square = times({y, 0.0f}, {y, 0.0f}), rest = one_minus(times(a, square));
  return metal::fma(y * 0.5f, rest.high, y);
}

}  // namespace weft
