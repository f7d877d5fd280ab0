// The hardware's exponential: 2^x within 2 ulp, results below the smallest normal number are 0. For weights of a softmax,
// which are relative to the largest.
#pragma once

namespace weft::cuda {

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

inline constexpr float kLog2e = 1.4426950408889634f;

// e^(x - m) for values that were bf16: the rounding of (x - m) log2(e) is far below theirs. Values that were f32 get expf.
template <class T>
__device__ __forceinline__ float exp_of_difference(float x, float m) {
  if constexpr (sizeof(T) == 2) return exp2_approx((x - m) * kLog2e);
  else return expf(x - m);
}

}  // namespace weft::cuda
