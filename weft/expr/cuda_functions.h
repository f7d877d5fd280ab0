// Functions in CUDA source. Most have two forms: f_quick(x) is accurate for |x| below a limit (quick_limit in dialects.h), which the kernel
// tests once for all functions of one value, or f_quick(x, rare) wherever it does not set `rare`; it has no branch, so that a vector of
// elements is computed straight through. f_of(x) is accurate everywhere and gives the same bits. Errors over all floats, on an H200:
// docs/numerics.md. NaN is always rare, or propagates.
#pragma once

namespace weft::expr::cuda_text {

// The CPU's own polynomial (weft/tile/cpu/math.h), operation by operation: CUDA's expf and exp2f err by up to 2 ulp.
inline constexpr const char* kExpReduced = R"(__device__ __forceinline__ float exp_reduced(float r) {
  const float p = fmaf(fmaf(fmaf(fmaf(0.00138201076f, r, 0.00836868491f), r, 0.0416682735f), r, 0.166665211f), r, 0.49999994f);
  return fmaf(fmaf(p, r, 1.0f), r, 1.0f);
}
)";
// p 2^n, n in the low bits of `shifted`: added to the exponent if the result is a normal number; else multiplied by two powers of two, of
// which the first product is exact.
inline constexpr const char* kScale = R"(__device__ __forceinline__ float scale_quick(float p, float shifted) {
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
__device__ __forceinline__ float scale_of(float p, float shifted) {
  const int n = __float_as_int(shifted) - 0x4b400000, half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
)";
inline constexpr const char* kExp = R"(__device__ __forceinline__ float exp_unscaled(float x, float& shifted) {
  shifted = fmaf(x, 0x1.715476p0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  return exp_reduced(fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, x)));
}
__device__ __forceinline__ float exp_quick(float x) {
  float shifted;
  const float p = exp_unscaled(x, shifted);
  return scale_quick(p, shifted);
}
__device__ __forceinline__ float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float shifted;
  const float p = exp_unscaled(x, shifted);
  return scale_of(p, shifted);
}
)";
inline constexpr const char* kExp2 = R"(__device__ __forceinline__ float exp2_unscaled(float x, float& shifted) {
  shifted = x + 0x1.8p23f;
  const float r = x - (shifted - 0x1.8p23f);
  float p = fmaf(0.000153264627f, r, 0.00133908063f);
  p = fmaf(fmaf(fmaf(p, r, 0.00961850584f), r, 0.0555035993f), r, 0.240226477f);
  return fmaf(fmaf(p, r, 0.693147182f), r, 1.0f);
}
__device__ __forceinline__ float exp2_quick(float x) {
  float shifted;
  const float p = exp2_unscaled(x, shifted);
  return scale_quick(p, shifted);
}
__device__ __forceinline__ float exp2_of(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  float shifted;
  const float p = exp2_unscaled(x, shifted);
  return scale_of(p, shifted);
}
)";
// 1 / d is the hardware's approximation plus one Newton step. Where e^-x is not a normal number: 1, or e^x to its last bit.
inline constexpr const char* kSigmoid = R"(__device__ __forceinline__ float sigmoid_quick(float x) {
  const float d = 1.0f + exp_quick(-x);
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  return fmaf(r, fmaf(-d, r, 1.0f), r);
}
__device__ __forceinline__ float sigmoid_of(float x) {
  return fabsf(x) < 87.0f ? sigmoid_quick(x) : x > 0.0f ? 1.0f : exp_of(x);
}
)";
// The steps by which the compiler divides 1 by a number whose reciprocal is a normal number, without its branch: the same bits. Otherwise
// (0, subnormals, 2^126 and above, infinity, NaN) `error` is not small.
inline constexpr const char* kReciprocal = R"(__device__ __forceinline__ float reciprocal_quick(float x, bool& rare) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  const float error = fmaf(x, r, -1.0f);
  rare |= !(fabsf(error) < 0.5f);
  return fmaf(r, -error, r);
}
)";
// From the hardware's approximation r of 1 / sqrt(x): g = x r, then g + (x - g^2) r / 2, which rounds correctly. g is NaN for 0,
// subnormals, infinity and negative numbers.
inline constexpr const char* kSqrt = R"(__device__ __forceinline__ float sqrt_quick(float x, bool& rare) {
  float r, g;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  asm("mul.ftz.f32 %0, %1, %2;" : "=f"(g) : "f"(x), "f"(r));
  rare |= !(g > 0x1p-48f);
  return fmaf(fmaf(-g, g, x), 0.5f * r, g);
}
)";
// 1 - 2 / (e^2|x| + 1) with the hardware's exponential and reciprocal; below 0.57 |x| + |x|^3 P(x^2).
inline constexpr const char* kTanh = R"(__device__ __forceinline__ float tanh_of(float x) {
  const float a = fabsf(x), z = x * x;
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a * 2.88539008f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  const float p = fmaf(fmaf(fmaf(0.016026307f, z, -0.0524524f), z, 0.13317259f), z, -0.33332795f);
  return copysignf(a < 0.57f ? fmaf(p * z, a, a) : fmaf(-2.0f, r, 1.0f), x);
}
)";
// x = n pi + r, |r| <= pi / 2, pi in three parts, each rounded towards 0 so that -0 stays -0: (-1)^n (r + r^3 P(r^2)). r P is computed
// first: its rounding costs least. Beyond 2^17 r comes from 2 / pi in integers (Payne and Hanek), as in weft/tile/cpu/trig.h.
inline constexpr const char* kSin = R"(__device__ __forceinline__ float sin_reduced(float r, int turns) {
  const float z = r * r;
  float p = fmaf(2.59423791e-06f, z, -0.000198033813f);
  p = fmaf(fmaf(p, z, 0.00833295938f), z, -0.166666538f);
  float y;  // of |r|; never above 1
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(fabsf(r) * p), "f"(z), "f"(fabsf(r)));
  return copysignf(y, __int_as_float(__float_as_int(r) + (turns << 31)));
}
__device__ __forceinline__ float sin_quick(float x) {
  const float shifted = fmaf(x, 0.318309886f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  return sin_reduced(fmaf(-n, 0x1.846988p-47f, fmaf(-n, 0x1.4442dp-23f, fmaf(-n, 0x1.921fb4p1f, x))), __float_as_int(shifted));
}
__constant__ const unsigned two_over_pi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
__device__ __noinline__ float sin_far(float x) {
  const unsigned bits = __float_as_uint(x) & 0x7fffffff;
  if (bits >= 0x7f800000) return __uint_as_float(0x7fc00000);
  const int first = (int)(bits >> 23) - 120;
  const unsigned long long m = (bits & 0x7fffff) | 0x800000;
  unsigned long long window[3];
  for (int i = 0; i < 3; ++i) {
    const unsigned long long pair = (unsigned long long)two_over_pi[first / 32 + i] << 32 | two_over_pi[first / 32 + i + 1];
    window[i] = (pair << (first % 32)) >> 32;
  }
  const unsigned long long turns = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
  const unsigned long long n = (turns + (1ull << 62)) >> 63;  // half turns, modulo 2
  const long long fraction = (long long)(turns - (n << 63));
  const float y = sin_reduced((float)((double)fraction * (3.14159265358979312 * 0x1p-63)), (int)n);
  return x < 0.0f ? -y : y;
}
__device__ __forceinline__ float sin_of(float x) { return fabsf(x) < 0x1p17f ? sin_quick(x) : sin_far(x); }
)";
// 1 + x = 2^e (1 + m), 1 + m in [2/3, 4/3): 2^-e has the complement of the exponent of 3 (1 + x), and m = x 2^-e - (1 - 2^-e) keeps what 1
// + x would round away. Then m + m^2 P(m) - (-e) ln 2. The signs are chosen so that the sign of a zero survives.
inline constexpr const char* kLog1p = R"(__device__ __forceinline__ float log1p_quick(float x, bool& rare) {
  const float v = fmaf(x, 3.0f, 3.0f);
  rare |= !(v > 0.0f);
  rare |= !(v < 0x1p126f);
  const int bits = ~__float_as_int(v) & 0x7f800000;
  const float scale = __int_as_float(bits), m = fmaf(x, scale, -(1.0f - scale));
  float p = fmaf(fmaf(fmaf(0.1399708f, m, -0.15388864f), m, 0.14003779f), m, -0.16415733f);
  p = fmaf(fmaf(fmaf(fmaf(p, m, 0.20010465f), m, -0.25007856f), m, 0.33333218f), m, -0.49999934f);
  return fmaf((float)(bits - 0x3f800000), -0x1.62e43p-24f, fmaf(m * m, p, m));
}
__device__ __forceinline__ float log1p_of(float x) {
  bool rare = false;
  const float y = log1p_quick(x, rare);
  return rare ? log1pf(x) : y;
}
)";

}  // namespace weft::expr::cuda_text
