// Written by weft for CUDA: inputs f32, f32, f32; outputs f32, f32; 0 parameters; rows over 0 axes.
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
__device__ __forceinline__ float sigmoid_quick(float x) {
  const float d = 1.0f + exp_quick(-x);
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  return fmaf(r, fmaf(-d, r, 1.0f), r);
}
__device__ __forceinline__ float sigmoid_of(float x) {
  return fabsf(x) < 87.0f ? sigmoid_quick(x) : x > 0.0f ? 1.0f : exp_of(x);
}

__device__ __forceinline__ void compute(float x0, float x1, float x2, float& y0, float& y1) {
  const float t4 = sigmoid_of(x0);
  const float t5 = 1.0f - t4;
  const float t6 = t5 * t4;
  const float t7 = x1 * x2;
  const float t8 = t7 * x0;
  const float t9 = t4 * t7;
  const float t10 = fmaf(t6, t8, t9);
  const float t11 = t4 * x0;
  const float t12 = t11 * x2;
  y0 = t10;
  y1 = t12;
}

__device__ __forceinline__ void compute_quick(float x0, float x1, float x2, float& y0, float& y1, bool& rare) {
  rare |= !(fabsf(x0) < 87.0f);
  const float t4 = sigmoid_quick(x0);
  const float t5 = 1.0f - t4;
  const float t6 = t5 * t4;
  const float t7 = x1 * x2;
  const float t8 = t7 * x0;
  const float t9 = t4 * t7;
  const float t10 = fmaf(t6, t8, t9);
  const float t11 = t4 * x0;
  const float t12 = t11 * x2;
  y0 = t10;
  y1 = t12;
}

extern "C" __global__ void swiglu_backward(const float* x0, const float* x1, const float* x2, float* y0, float* y1, Layout layout) {
  const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk < layout.chunks) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    if (layout.aligned && i + 4 <= layout.columns) {
      float v0[4];
      load<4>(x0 + i, v0);
      float v1[4];
      load<4>(x1 + i, v1);
      float v2[4];
      load<4>(x2 + i, v2);
      float r0[4], r1[4];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 4; ++k) compute_quick(v0[k], v1[k], v2[k], r0[k], r1[k], rare);
      if (!rare) {
        store<4>(r0, y0 + i, past_caches);
        store<4>(r1, y1 + i, past_caches);
        return;
      }
    }
#pragma unroll 1
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      const float v2 = load(x2 + j);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + j);
      store(r1, y1 + j);
    }
  }
}
