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
__device__ __forceinline__ float reciprocal_quick(float x, bool& rare) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  const float error = fmaf(x, r, -1.0f);
  rare |= !(fabsf(error) < 0.5f);
  return fmaf(r, -error, r);
}

__device__ __forceinline__ void compute(float x0, float& y0) {
  const float t1 = 1.0f / x0;
  y0 = t1;
}

__device__ __forceinline__ void compute_quick(float x0, float& y0, bool& rare) {
  const float t1 = reciprocal_quick(x0, rare);
  y0 = t1;
}

extern "C" __global__ void reciprocal(const float* x0, float* y0, Layout layout) {
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
