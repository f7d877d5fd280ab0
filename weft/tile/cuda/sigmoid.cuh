// The sigmoid of elementwise expressions (weft/expr/cuda_functions.h) for kernels that are not compiled at run time: the same operations
// and bits.
#pragma once

namespace weft::cuda {

__device__ __forceinline__ float exp_reduced(float r) {
  const float p = fmaf(fmaf(fmaf(fmaf(0.00138201076f, r, 0.00836868491f), r, 0.0416682735f), r, 0.166665211f), r, 0.49999994f);
  return fmaf(fmaf(p, r, 1.0f), r, 1.0f);
}
__device__ __forceinline__ float exp_unscaled(float x, float& shifted) {
  shifted = fmaf(x, 0x1.715476p0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  return exp_reduced(fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, x)));
}
// e^x where it is a normal number.
__device__ __forceinline__ float exp_quick(float x) {
  float shifted;
  const float p = exp_unscaled(x, shifted);
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
__device__ __forceinline__ float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float shifted;
  const float p = exp_unscaled(x, shifted);
  const int n = __float_as_int(shifted) - 0x4b400000, half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
__device__ __forceinline__ float sigmoid_of(float x) {
  if (!(fabsf(x) < 87.0f)) return x > 0.0f ? 1.0f : exp_of(x);
  const float d = 1.0f + exp_quick(-x);
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  return fmaf(r, fmaf(-d, r, 1.0f), r);
}

}  // namespace weft::cuda
