// <metal_math>, <metal_common>, <metal_relational>, <metal_geometric>: for float and half, as in Metal; for vectors component by component.
// precise:: and fast:: are the same here.
#pragma once

#include <weft_sim/vector.h>

namespace weft_sim {

WEFT_SIM_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
WEFT_SIM_INLINE float exp10(float x) { return __builtin_powf(10.0f, x); }
WEFT_SIM_INLINE float fract(float x) { return __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f); }
WEFT_SIM_INLINE float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }
WEFT_SIM_INLINE float saturate(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); }
WEFT_SIM_INLINE float divide(float x, float y) { return x / y; }
WEFT_SIM_INLINE float step(float edge, float x) { return x < edge ? 0.0f : 1.0f; }

}  // namespace weft_sim

#define WEFT_SIM_UNARY(name, function)                                      \
  WEFT_SIM_INLINE float name(float x) { return function(x); }               \
  WEFT_SIM_INLINE half name(half x) { return half(function(float(x))); }    \
  template <class A, class = enable_if_t<is_vector<A>>>                     \
  WEFT_SIM_INLINE VectorType<A> name(const A& a) {                          \
    return map(VectorType<A>(a), [](ElementType<A> x) { return name(x); }); \
  }
#define WEFT_SIM_BINARY_FUNCTION(name, function)                                                           \
  WEFT_SIM_INLINE float name(float x, float y) { return function(x, y); }                                  \
  WEFT_SIM_INLINE half name(half x, half y) { return half(function(float(x), float(y))); }                 \
  template <class A, class B, class V = CommonType<A, B>>                                                  \
  WEFT_SIM_INLINE V name(const A& a, const B& b) {                                                         \
    return map(spread<V>(a), spread<V>(b), [](ElementType<V> x, ElementType<V> y) { return name(x, y); }); \
  }
#define WEFT_SIM_FUNCTIONS                          \
  WEFT_SIM_UNARY(exp, __builtin_expf)               \
  WEFT_SIM_UNARY(exp2, __builtin_exp2f)             \
  WEFT_SIM_UNARY(exp10, ::weft_sim::exp10)          \
  WEFT_SIM_UNARY(log, __builtin_logf)               \
  WEFT_SIM_UNARY(log2, __builtin_log2f)             \
  WEFT_SIM_UNARY(log10, __builtin_log10f)           \
  WEFT_SIM_UNARY(sin, __builtin_sinf)               \
  WEFT_SIM_UNARY(cos, __builtin_cosf)               \
  WEFT_SIM_UNARY(tan, __builtin_tanf)               \
  WEFT_SIM_UNARY(asin, __builtin_asinf)             \
  WEFT_SIM_UNARY(acos, __builtin_acosf)             \
  WEFT_SIM_UNARY(atan, __builtin_atanf)             \
  WEFT_SIM_UNARY(sinh, __builtin_sinhf)             \
  WEFT_SIM_UNARY(cosh, __builtin_coshf)             \
  WEFT_SIM_UNARY(tanh, __builtin_tanhf)             \
  WEFT_SIM_UNARY(asinh, __builtin_asinhf)           \
  WEFT_SIM_UNARY(acosh, __builtin_acoshf)           \
  WEFT_SIM_UNARY(atanh, __builtin_atanhf)           \
  WEFT_SIM_UNARY(sqrt, __builtin_sqrtf)             \
  WEFT_SIM_UNARY(rsqrt, ::weft_sim::rsqrt)          \
  WEFT_SIM_UNARY(fabs, __builtin_fabsf)             \
  WEFT_SIM_UNARY(floor, __builtin_floorf)           \
  WEFT_SIM_UNARY(ceil, __builtin_ceilf)             \
  WEFT_SIM_UNARY(round, __builtin_roundf)           \
  WEFT_SIM_UNARY(rint, __builtin_rintf)             \
  WEFT_SIM_UNARY(trunc, __builtin_truncf)           \
  WEFT_SIM_UNARY(fract, ::weft_sim::fract)          \
  WEFT_SIM_UNARY(saturate, ::weft_sim::saturate)    \
  WEFT_SIM_BINARY_FUNCTION(pow, __builtin_powf)     \
  WEFT_SIM_BINARY_FUNCTION(powr, __builtin_powf)    \
  WEFT_SIM_BINARY_FUNCTION(atan2, __builtin_atan2f) \
  WEFT_SIM_BINARY_FUNCTION(fmin, __builtin_fminf)   \
  WEFT_SIM_BINARY_FUNCTION(fmax, __builtin_fmaxf)   \
  WEFT_SIM_BINARY_FUNCTION(fmod, __builtin_fmodf)   \
  WEFT_SIM_BINARY_FUNCTION(fdim, __builtin_fdimf)   \
  WEFT_SIM_BINARY_FUNCTION(divide, ::weft_sim::divide)

namespace metal {

WEFT_SIM_FUNCTIONS
WEFT_SIM_UNARY(sign, ::weft_sim::sign)
WEFT_SIM_BINARY_FUNCTION(copysign, __builtin_copysignf)
WEFT_SIM_BINARY_FUNCTION(step, ::weft_sim::step)

// min and max of floats: a number wins over a NaN.
#define WEFT_SIM_ORDER(T, greater, less)                                                   \
  WEFT_SIM_INLINE constexpr T max(T a, T b) { return greater; }                            \
  WEFT_SIM_INLINE constexpr T min(T a, T b) { return less; }                               \
  WEFT_SIM_INLINE constexpr T clamp(T x, T low, T high) { return min(max(x, low), high); } \
  WEFT_SIM_INLINE constexpr T max3(T a, T b, T c) { return max(a, max(b, c)); }            \
  WEFT_SIM_INLINE constexpr T min3(T a, T b, T c) { return min(a, min(b, c)); }
#define WEFT_SIM_INTEGER_ORDER(T) WEFT_SIM_ORDER(T, a < b ? b : a, b < a ? b : a)
WEFT_SIM_INTEGER_ORDER(char)
WEFT_SIM_INTEGER_ORDER(signed char)
WEFT_SIM_INTEGER_ORDER(uchar)
WEFT_SIM_INTEGER_ORDER(short)
WEFT_SIM_INTEGER_ORDER(ushort)
WEFT_SIM_INTEGER_ORDER(int)
WEFT_SIM_INTEGER_ORDER(uint)
WEFT_SIM_INTEGER_ORDER(long)
WEFT_SIM_INTEGER_ORDER(ulong)
WEFT_SIM_ORDER(float, __builtin_fmaxf(a, b), __builtin_fminf(a, b))
WEFT_SIM_ORDER(half, half(__builtin_fmaxf(float(a), float(b))), half(__builtin_fminf(float(a), float(b))))

template <class A, class B, class V = CommonType<A, B>>
WEFT_SIM_INLINE V max(const A& a, const B& b) {
  return map(spread<V>(a), spread<V>(b), [](ElementType<V> x, ElementType<V> y) { return max(x, y); });
}
template <class A, class B, class V = CommonType<A, B>>
WEFT_SIM_INLINE V min(const A& a, const B& b) {
  return map(spread<V>(a), spread<V>(b), [](ElementType<V> x, ElementType<V> y) { return min(x, y); });
}
template <class A, class B, class C, class = enable_if_t<is_vector<A>>>
WEFT_SIM_INLINE VectorType<A> clamp(const A& x, const B& low, const C& high) {
  return min(max(x, low), high);
}

#define WEFT_SIM_ABS(T) \
  WEFT_SIM_INLINE constexpr T abs(T x) { return x < 0 ? T(-x) : x; }
WEFT_SIM_ABS(char)
WEFT_SIM_ABS(short)
WEFT_SIM_ABS(int)
WEFT_SIM_ABS(long)
WEFT_SIM_INLINE float abs(float x) { return __builtin_fabsf(x); }
WEFT_SIM_INLINE half abs(half x) { return half(__builtin_fabsf(float(x))); }
template <class A, class = enable_if_t<is_vector<A>>>
WEFT_SIM_INLINE VectorType<A> abs(const A& a) {
  return map(VectorType<A>(a), [](ElementType<A> x) { return abs(x); });
}

WEFT_SIM_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WEFT_SIM_INLINE half fma(half a, half b, half c) { return half(__builtin_fma(double(a), double(b), double(c))); }
template <class A, class = enable_if_t<is_vector<A>>>
WEFT_SIM_INLINE VectorType<A> fma(const A& a, const VectorType<A>& b, const VectorType<A>& c) {
  const VectorType<A> x = a;
  VectorType<A> result{};
  for (int i = 0; i < components<A>; ++i) result.all[i] = fma(x.all[i], b.all[i], c.all[i]);
  return result;
}
WEFT_SIM_INLINE float mix(float a, float b, float t) { return a + (b - a) * t; }
WEFT_SIM_INLINE float smoothstep(float low, float high, float x) {
  const float t = clamp((x - low) / (high - low), 0.0f, 1.0f);
  return t * t * (3.0f - 2.0f * t);
}
WEFT_SIM_INLINE float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
WEFT_SIM_INLINE float frexp(float x, int& exponent) { return __builtin_frexpf(x, &exponent); }
WEFT_SIM_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }
WEFT_SIM_INLINE float modf(float x, float& whole) { return __builtin_modff(x, &whole); }
WEFT_SIM_INLINE float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }
WEFT_SIM_INLINE float sincos(float x, float& cosine) {
  cosine = __builtin_cosf(x);
  return __builtin_sinf(x);
}

#define WEFT_SIM_PREDICATE(name, builtin)                         \
  WEFT_SIM_INLINE bool name(float x) { return builtin(x); }       \
  WEFT_SIM_INLINE bool name(half x) { return builtin(float(x)); } \
  template <class T, int N>                                       \
  WEFT_SIM_INLINE vec<bool, N> name(const vec<T, N>& a) {         \
    vec<bool, N> result{};                                        \
    for (int i = 0; i < N; ++i) result.all[i] = name(a.all[i]);   \
    return result;                                                \
  }
WEFT_SIM_PREDICATE(isnan, __builtin_isnan)
WEFT_SIM_PREDICATE(isinf, __builtin_isinf)
WEFT_SIM_PREDICATE(isfinite, __builtin_isfinite)
WEFT_SIM_PREDICATE(isnormal, __builtin_isnormal)
WEFT_SIM_PREDICATE(signbit, __builtin_signbit)

template <class T, class = enable_if_t<is_arithmetic_v<T>>>
WEFT_SIM_INLINE T select(T a, T b, bool second) {
  return second ? b : a;
}
template <class T, int N>
WEFT_SIM_INLINE vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> second) {
  vec<T, N> result{};
  for (int i = 0; i < N; ++i) result.all[i] = second.all[i] ? b.all[i] : a.all[i];
  return result;
}
template <int N>
WEFT_SIM_INLINE bool all(vec<bool, N> v) {
  for (int i = 0; i < N; ++i) {
    if (!v.all[i]) return false;
  }
  return true;
}
template <int N>
WEFT_SIM_INLINE bool any(vec<bool, N> v) {
  return !all(!v);
}

template <class T, int N>
WEFT_SIM_INLINE T dot(const vec<T, N>& a, const vec<T, N>& b) {
  T sum = a.all[0] * b.all[0];
  for (int i = 1; i < N; ++i) sum += a.all[i] * b.all[i];
  return sum;
}
template <class T, int N>
WEFT_SIM_INLINE T length_squared(const vec<T, N>& a) {
  return dot(a, a);
}
template <class T, int N>
WEFT_SIM_INLINE T length(const vec<T, N>& a) {
  return sqrt(dot(a, a));
}
template <class T, int N>
WEFT_SIM_INLINE vec<T, N> normalize(const vec<T, N>& a) {
  return a * rsqrt(dot(a, a));
}

namespace precise {
WEFT_SIM_FUNCTIONS
using metal::clamp;
using metal::fma;
using metal::max;
using metal::min;
using metal::sincos;
}  // namespace precise
namespace fast {
WEFT_SIM_FUNCTIONS
using metal::clamp;
using metal::fma;
using metal::max;
using metal::min;
using metal::sincos;
}  // namespace fast

}  // namespace metal
