// Written by weft for CUDA: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
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
__device__ __forceinline__ float log1p_quick(float x, bool& rare) {
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

__device__ __forceinline__ void compute(float x0, float& y0) {
  const float t1 = fabsf(x0);
  const float t2 = -t1;
  const float t3 = exp_of(t2);
  const float t4 = log1p_of(t3);
  const float t6 = x0 < 0.0f || 0.0f != 0.0f ? 0.0f : x0;
  const float t7 = t4 + t6;
  y0 = t7;
}

__device__ __forceinline__ void compute_quick(float x0, float& y0, bool& rare) {
  const float t1 = fabsf(x0);
  const float t2 = -t1;
  rare |= !(fabsf(x0) < 87.0f);
  const float t3 = exp_quick(t2);
  const float t4 = log1p_quick(t3, rare);
  const float t6 = x0 < 0.0f || 0.0f != 0.0f ? 0.0f : x0;
  const float t7 = t4 + t6;
  y0 = t7;
}

extern "C" __global__ void softplus(const float* x0, float* y0, Layout layout) {
  const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk < layout.chunks) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    if (layout.aligned && i + 4 <= layout.columns) {
      float v0[4];
      load<4>(x0 + i, v0);
      float r0[4];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 4; ++k) compute_quick(v0[k], r0[k], rare);
      if (!rare) {
        store<4>(r0, y0 + i, past_caches);
        return;
      }
    }
#pragma unroll 1
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, r0);
      store(r0, y0 + j);
    }
  }
}
