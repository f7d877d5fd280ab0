// Written by weft for CUDA: inputs f32, f32; outputs f32; 0 parameters; rows over 0 axes.
__device__ __forceinline__ float load(const float* p) { return *p; }
__device__ __forceinline__ void store(float x, float* p) { *p = x; }
__device__ __forceinline__ void widen(unsigned word, float* x, const float*) { *x = __uint_as_float(word); }
__device__ __forceinline__ unsigned narrow(const float* x, const float*) { return __float_as_uint(*x); }
template <int N, class T> __device__ __forceinline__ void load(const T* p, float* x) {
  constexpr int n = 4 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N; j += 4 * n) {
    const uint4 v = *reinterpret_cast<const uint4*>(p + j);
    widen(v.x, x + j, p);
    widen(v.y, x + j + n, p);
    widen(v.z, x + j + 2 * n, p);
    widen(v.w, x + j + 3 * n, p);
  }
}
template <int N, class T> __device__ __forceinline__ void store(const float* x, T* p, bool past_caches) {
  constexpr int n = 4 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N; j += 4 * n) {
    const uint4 v = {narrow(x + j, p), narrow(x + j + n, p), narrow(x + j + 2 * n, p), narrow(x + j + 3 * n, p)};
    uint4* to = reinterpret_cast<uint4*>(p + j);
    if (past_caches) __stcs(to, v);
    else *to = v;
  }
}
struct Layout { long long chunks, row_chunks, columns, aligned; };
__device__ __forceinline__ float exp_reduced(float r) {
  const float p = fmaf(fmaf(fmaf(fmaf(0.00138201076f, r, 0.00836868491f), r, 0.0416682735f), r, 0.166665211f), r, 0.49999994f);
  return fmaf(fmaf(p, r, 1.0f), r, 1.0f);
}
__device__ __forceinline__ float scale_quick(float p, float shifted) {
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
__device__ __forceinline__ float scale_of(float p, float shifted) {
  const int n = __float_as_int(shifted) - 0x4b400000, half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
__device__ __forceinline__ float exp_unscaled(float x, float& shifted) {
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

__device__ __forceinline__ void compute(float x0, float x1, float& y0) {
  const float t3 = x0 < 0.0f ? 1.0f : 0.0f;
  const float t4 = fabsf(x0);
  const float t5 = -t4;
  const float t6 = exp_of(t5);
  const float t8 = t6 + 1.0f;
  const float t9 = x1 / t8;
  const float t10 = t9 * t6;
  const float t11 = -t10;
  const float t12 = t3 != 0.0f ? t10 : t11;
  const float t13 = x0 != 0.0f ? t12 : 0.0f;
  const float t14 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t16 = x1 * 0.5f;
  const float t17 = x0 != 0.0f ? 0.0f : t16;
  const float t18 = t14 != 0.0f ? x1 : t17;
  const float t19 = t13 + t18;
  y0 = t19;
}

__device__ __forceinline__ void compute_quick(float x0, float x1, float& y0, bool& rare) {
  const float t3 = x0 < 0.0f ? 1.0f : 0.0f;
  const float t4 = fabsf(x0);
  const float t5 = -t4;
  rare |= !(fabsf(x0) < 87.0f);
  const float t6 = exp_quick(t5);
  const float t8 = t6 + 1.0f;
  const float t9 = x1 / t8;
  const float t10 = t9 * t6;
  const float t11 = -t10;
  const float t12 = t3 != 0.0f ? t10 : t11;
  const float t13 = x0 != 0.0f ? t12 : 0.0f;
  const float t14 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t16 = x1 * 0.5f;
  const float t17 = x0 != 0.0f ? 0.0f : t16;
  const float t18 = t14 != 0.0f ? x1 : t17;
  const float t19 = t13 + t18;
  y0 = t19;
}

extern "C" __global__ void softplus_backward(const float* x0, const float* x1, float* y0, Layout layout) {
  const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk < layout.chunks) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    if (layout.aligned && i + 4 <= layout.columns) {
      float v0[4];
      load<4>(x0 + i, v0);
      float v1[4];
      load<4>(x1 + i, v1);
      float r0[4];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 4; ++k) compute_quick(v0[k], v1[k], r0[k], rare);
      if (!rare) {
        store<4>(r0, y0 + i, past_caches);
        return;
      }
    }
#pragma unroll 1
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + j);
    }
  }
}
