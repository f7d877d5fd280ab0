// Written by weft for CUDA: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ void narrow(float x, float& to) { to = x; }
template <class T> __device__ __forceinline__ float load(const T* p) { return widen(*p); }
template <class T> __device__ __forceinline__ void store(float x, T* p) { narrow(x, *p); }
template <class T> struct alignas(16) Vector { T part[16 / sizeof(T)]; };
template <int N, class T> __device__ __forceinline__ void load(const T* p, float (&x)[N], bool past_caches) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    Vector<T> v;
    const uint4* from = reinterpret_cast<const uint4*>(p) + j;
    *reinterpret_cast<uint4*>(v.part) = past_caches ? __ldcs(from) : *from;
#pragma unroll
    for (int k = 0; k < n; ++k) x[j * n + k] = widen(v.part[k]);
  }
}
template <int N, class T> __device__ __forceinline__ void store(const float (&x)[N], T* p, bool past_caches) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    Vector<T> v;
#pragma unroll
    for (int k = 0; k < n; ++k) narrow(x[j * n + k], v.part[k]);
    uint4* to = reinterpret_cast<uint4*>(p) + j;
    if (past_caches) __stcs(to, *reinterpret_cast<const uint4*>(v.part));
    else *to = *reinterpret_cast<const uint4*>(v.part);
  }
}
struct Layout { long long chunks, row_chunks, columns, aligned; };
__device__ __forceinline__ float scale_of(float p, float shifted) {
  const int n = __float_as_int(shifted) - 0x4b400000, half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
__device__ __forceinline__ float exp_reduced(float r) {
  const float p = fmaf(fmaf(fmaf(fmaf(0.00138201076f, r, 0.00836868491f), r, 0.0416682735f), r, 0.166665211f), r, 0.49999994f);
  return fmaf(fmaf(p, r, 1.0f), r, 1.0f);
}
__device__ __forceinline__ float sigmoid_of(float x) {
  const float a = -fabsf(x), b = a < -104.0f ? -104.0f : a;
  const float shifted = fmaf(b, 0x1.715476p0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float e = scale_of(exp_reduced(fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, b))), shifted), d = 1.0f + e;
  float r;  // 1 / d: the hardware's guess, and a step of Newton's
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = fmaf(r, fmaf(-d, r, 1.0f), r);
  return (x < 0.0f ? e : 1.0f) * r;
}

__device__ __forceinline__ void compute(float x0, float& y0) {
  const float t1 = x0 * x0;
  const float t4 = fmaf(t1, 0.071354814f, 1.5957692f);
  const float t5 = t4 * x0;
  const float t6 = sigmoid_of(t5);
  const float t7 = t6 * x0;
  y0 = t7;
}

extern "C" __global__ void gelu_tanh(const float* x0, float* y0, Layout layout) {
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;
  for (long long chunk = first; chunk < layout.chunks; chunk += step) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    if (layout.aligned && i + 4 <= layout.columns) {
      float v0[4];
      load(x0 + i, v0, past_caches);
      float r0[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) compute(v0[k], r0[k]);
      store(r0, y0 + i, past_caches);
      continue;
    }
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, r0);
      store(r0, y0 + j);
    }
  }
}
