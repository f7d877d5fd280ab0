// Written by weft for CUDA: inputs f32, f32, f32, f32; outputs f32, f32, f32; 3 parameters; rows over 0 axes.
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
struct Parameters { float p[3]; };
__device__ __forceinline__ float sqrt_quick(float x, bool& rare) {
  float r, g;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  asm("mul.ftz.f32 %0, %1, %2;" : "=f"(g) : "f"(x), "f"(r));
  rare |= !(g > 0x1p-48f);
  return fmaf(fmaf(-g, g, x), 0.5f * r, g);
}

__device__ __forceinline__ void compute(float x0, float x1, float x2, float x3, float p0, float p1, float p2, float& y0, float& y1, float& y2) {
  const float t8 = 1.0f - p1;
  const float t9 = x3 - x1;
  const float t10 = fmaf(t8, t9, x1);
  const float t11 = t10 * p0;
  const float t12 = -x2;
  const float t13 = fmaf(x3, x3, t12);
  const float t14 = 1.0f - p2;
  const float t15 = fmaf(t13, t14, x2);
  const float t16 = sqrtf(t15);
  const float t18 = t16 + 1e-08f;
  const float t19 = t11 / t18;
  const float t20 = x0 - t19;
  y0 = t20;
  y1 = t10;
  y2 = t15;
}

__device__ __forceinline__ void compute_quick(float x0, float x1, float x2, float x3, float p0, float p1, float p2, float& y0, float& y1, float& y2, bool& rare) {
  const float t8 = 1.0f - p1;
  const float t9 = x3 - x1;
  const float t10 = fmaf(t8, t9, x1);
  const float t11 = t10 * p0;
  const float t12 = -x2;
  const float t13 = fmaf(x3, x3, t12);
  const float t14 = 1.0f - p2;
  const float t15 = fmaf(t13, t14, x2);
  const float t16 = sqrt_quick(t15, rare);
  const float t18 = t16 + 1e-08f;
  const float t19 = t11 / t18;
  const float t20 = x0 - t19;
  y0 = t20;
  y1 = t10;
  y2 = t15;
}

extern "C" __global__ void adam(const float* x0, const float* x1, const float* x2, const float* x3, float* y0, float* y1, float* y2, Layout layout, Parameters parameters) {
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
      float v3[4];
      load<4>(x3 + i, v3);
      float r0[4], r1[4], r2[4];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 4; ++k) compute_quick(v0[k], v1[k], v2[k], v3[k], parameters.p[0], parameters.p[1], parameters.p[2], r0[k], r1[k], r2[k], rare);
      if (!rare) {
        store<4>(r0, y0 + i, past_caches);
        store<4>(r1, y1 + i, past_caches);
        store<4>(r2, y2 + i, past_caches);
        return;
      }
    }
#pragma unroll 1
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      const float v2 = load(x2 + j);
      const float v3 = load(x3 + j);
      float r0, r1, r2;
      compute(v0, v1, v2, v3, parameters.p[0], parameters.p[1], parameters.p[2], r0, r1, r2);
      store(r0, y0 + j);
      store(r1, y1 + j);
      store(r2, y2 + j);
    }
  }
}
