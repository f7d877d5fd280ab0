// Activation functions on a value in a register (weft/tile/activation.h).
#pragma once

#include "weft/tile/activation.h"

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

}  // namespace weft::cuda
