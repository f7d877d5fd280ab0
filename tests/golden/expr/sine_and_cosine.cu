// Written by weft for CUDA: inputs f32; outputs f32, f32; 0 parameters; rows over 0 axes.
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
__device__ __forceinline__ float sin_reduced(float r, int turns) {
  const float z = r * r;
  float p = fmaf(2.59423791e-06f, z, -0.000198033813f);
  p = fmaf(fmaf(p, z, 0.00833295938f), z, -0.166666538f);
  float y;  // of |r|; never above 1
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(fabsf(r) * p), "f"(z), "f"(fabsf(r)));
  return copysignf(y, __int_as_float(__float_as_int(r) + (turns << 31)));
}
__device__ __forceinline__ float sin_quick(float x) {
  const float shifted = fmaf(x, 0.318309886f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  return sin_reduced(fmaf(-n, 0x1.846988p-47f, fmaf(-n, 0x1.4442dp-23f, fmaf(-n, 0x1.921fb4p1f, x))), __float_as_int(shifted));
}
__constant__ const unsigned two_over_pi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
__device__ __noinline__ float sin_far(float x) {
  const unsigned bits = __float_as_uint(x) & 0x7fffffff;
  if (bits >= 0x7f800000) return __uint_as_float(0x7fc00000);
  const int first = (int)(bits >> 23) - 120;
  const unsigned long long m = (bits & 0x7fffff) | 0x800000;
  unsigned long long window[3];
  for (int i = 0; i < 3; ++i) {
    const unsigned long long pair = (unsigned long long)two_over_pi[first / 32 + i] << 32 | two_over_pi[first / 32 + i + 1];
    window[i] = (pair << (first % 32)) >> 32;
  }
  const unsigned long long turns = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
  const unsigned long long n = (turns + (1ull << 62)) >> 63;  // half turns, modulo 2
  const long long fraction = (long long)(turns - (n << 63));
  const float y = sin_reduced((float)((double)fraction * (3.14159265358979312 * 0x1p-63)), (int)n);
  return x < 0.0f ? -y : y;
}
__device__ __forceinline__ float sin_of(float x) { return fabsf(x) < 0x1p17f ? sin_quick(x) : sin_far(x); }

__device__ __forceinline__ void compute(float x0, float& y0, float& y1) {
  const float t1 = sin_of(x0);
  const float t2 = cosf(x0);
  y0 = t1;
  y1 = t2;
}

__device__ __forceinline__ void compute_quick(float x0, float& y0, float& y1, bool& rare) {
  rare |= !(fabsf(x0) < 131072.0f);
  const float t1 = sin_quick(x0);
  const float t2 = cosf(x0);
  y0 = t1;
  y1 = t2;
}

extern "C" __global__ void sine_and_cosine(const float* x0, float* y0, float* y1, Layout layout) {
  const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk < layout.chunks) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    if (layout.aligned && i + 4 <= layout.columns) {
      float v0[4];
      load<4>(x0 + i, v0);
      float r0[4], r1[4];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 4; ++k) compute_quick(v0[k], r0[k], r1[k], rare);
      if (!rare) {
        store<4>(r0, y0 + i, past_caches);
        store<4>(r1, y1 + i, past_caches);
        return;
      }
    }
#pragma unroll 1
    for (long long j = i; j < i + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      float r0, r1;
      compute(v0, r0, r1);
      store(r0, y0 + j);
      store(r1, y1 + j);
    }
  }
}
