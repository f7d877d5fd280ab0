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

// Weights 2^(by x - shift) of a row of scores whose largest is `most`; by = to_log2, the scale times log2(e), above 0. most * by is
// rounded in `shift` but not in the fused step, which leaves a factor 2^(that rounding) in numerator and denominator, where it cancels;
// beyond 2^30 it could exceed the range of exponents. There `by` is a power of two: the multiplication is exact, and any other score is
// so far away that its weight is 0 with either.
struct ScoreBase {
  float by, shift;
  __device__ __forceinline__ ScoreBase(float most, float to_log2) {
    by = fabsf(most * to_log2) < 0x1p30f ? to_log2 : __int_as_float(__float_as_int(to_log2) & 0x7f800000);
    shift = most == -__builtin_huge_valf() ? 0.0f : most * by;  // nothing unmasked yet: 2^-inf = 0
  }
  __device__ __forceinline__ float weight(float x) const { return exp2_approx(fmaf(x, by, -shift)); }
};

// e^(x - m) for values that were bf16: the rounding of (x - m) log2(e) is far below theirs. Values that were f32 get expf.
template <class T>
__device__ __forceinline__ float exp_of_difference(float x, float m) {
  if constexpr (sizeof(T) == 2)
    return exp2_approx((x - m) * kLog2e);
  else
    return expf(x - m);
}

}  // namespace weft::cuda
