// Activation functions on a value in a register (weft/tile/activation.h).
#pragma once

#include "weft/tile/activation.h"
#include "weft/tile/cuda/math.cuh"

namespace weft::cuda {

// silu and gelu_tanh are x / (1 + e^z): z.
__device__ __forceinline__ float logistic_exponent(float x, Activation kind) {
  return kind == Activation::silu ? -x : -1.5957691216057308f * fmaf(0.044715f * x * x, x, x);
}

__device__ __forceinline__ float activate(float x, Activation kind) {
  switch (kind) {
    case Activation::none: return x;
    case Activation::relu: return x > 0 || x != x ? x : 0.0f;
    case Activation::silu:
    case Activation::gelu_tanh: return x / (1.0f + expf(logistic_exponent(x, kind)));
  }
  return x;
}

// x / d for d >= 1 by the steps of the compiler's division, without its branch: the same bits, unless `rare` is set.
__device__ __forceinline__ float quotient_quick(float x, float d, bool& rare) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = fmaf(r, fmaf(-d, r, 1.0f), r);
  const float q = x * r;
  rare |= !(fabsf(x) >= 0x1p-20f) || !(fabsf(x) < 0x1p60f) || !(d < 0x1p100f);  // else every step has a normal result or an exact one
  return fmaf(r, fmaf(-d, q, x), q);
}

// A call: what rarely runs takes no registers.
static __device__ __noinline__ float activate_rarely(float x, Activation kind) { return activate(x, kind); }

// activate() of several values, straight through: with a branch in each division they were computed one after the other.
template <int kCount>
__device__ __forceinline__ void activate_all(const float (&x)[kCount], float (&y)[kCount], Activation kind) {
  if (kind == Activation::none || kind == Activation::relu) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) y[i] = kind == Activation::none ? x[i] : activate(x[i], Activation::relu);
    return;
  }
  bool rare = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) y[i] = quotient_quick(x[i], 1.0f + expf(logistic_exponent(x[i], kind)), rare);
  if (rare)
#pragma unroll
    for (int i = 0; i < kCount; ++i) y[i] = activate_rarely(x[i], kind);
}

// f'(x). With e = e^-|t| and s = 1 / (1 + e^-t), neither s nor 1 - s cancels; past the clamps one of them is 0.
__device__ __forceinline__ float slope_precise(float x, Activation kind) {
  if (kind == Activation::none) return 1.0f;
  if (kind == Activation::relu) return x > 0 ? 1.0f : x != x ? x : 0.0f;
  const float most = kind == Activation::silu ? 128.0f : 16.0f, y = x != x ? x : fminf(fmaxf(x, -most), most), q = y * y;
  const float t = kind == Activation::silu ? y : y * fmaf(q, 0.071354816f, 1.5957691f);
  const float by = kind == Activation::silu ? y : y * fmaf(q, 0.21406445f, 1.5957691f);
  const float e = expf(-fabsf(t)), scale = 1.0f / (1.0f + e), s = (t < 0 ? e : 1.0f) * scale, rest = (t < 0 ? 1.0f : e) * scale;
  return s * fmaf(by, rest, 1.0f);
}

// f'(x) for a gradient in bf16, without branches; the limits 0 and 1 for large |x|. With s = 1 / (1 + e^-t):
// silu: s (1 + x (1 - s)), t = x; gelu_tanh: s (1 + x t' (1 - s)). relu: 1 where x > 0. NaN gives NaN.
__device__ __forceinline__ float slope_approx(float x, Activation kind) {
  if (kind == Activation::none) return 1.0f;
  if (kind == Activation::relu) return x > 0 ? 1.0f : x != x ? x : 0.0f;
  const bool silu = kind == Activation::silu;
  float y;  // x clamped so that e^-t is finite; beyond, f' is 0 or 1 to within 2^-80
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(silu ? 64.0f : 9.0f));
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(silu ? -64.0f : -9.0f));
  const float q = y * y, e = exp2_approx(silu ? -kLog2e * y : y * fmaf(q, -0.10294324f, -2.3022082f));  // -t log2(e)
  float s;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + e));
  return s * fmaf(silu ? y : y * fmaf(q, 0.21406445f, 1.5957691f), e * s, 1.0f);
}

}  // namespace weft::cuda
