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
__device__ __forceinline__ float sqrt_quick(float x, bool& rare) {
  float r, g;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  asm("mul.ftz.f32 %0, %1, %2;" : "=f"(g) : "f"(x), "f"(r));
  rare |= !(g > 0x1p-48f);
  return fmaf(fmaf(-g, g, x), 0.5f * r, g);
}
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
__device__ __forceinline__ float tanh_of(float x) {
  const float a = fabsf(x), z = x * x;
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a * 2.88539008f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  const float p = fmaf(fmaf(fmaf(0.016026307f, z, -0.0524524f), z, 0.13317259f), z, -0.33332795f);
  return copysignf(a < 0.57f ? fmaf(p * z, a, a) : fmaf(-2.0f, r, 1.0f), x);
}
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
  const float t2 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t3 = fabsf(x0);
  const float t4 = sqrtf(t3);
  const float t5 = sin_of(t4);
  const float t6 = tanh_of(x0);
  const float t7 = -t4;
  const float t8 = exp_of(t7);
  const float t9 = fmaf(t5, t6, t8);
  const float t10 = t9 * t9;
  const float t11 = log1p_of(t10);
  const float t12 = t2 != 0.0f ? t11 : t9;
  y0 = t12;
}

__device__ __forceinline__ void compute_quick(float x0, float& y0, bool& rare) {
  const float t2 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t3 = fabsf(x0);
  const float t4 = sqrt_quick(t3, rare);
  rare |= !(fabsf(t4) < 87.0f);
  const float t5 = sin_quick(t4);
  const float t6 = tanh_of(x0);
  const float t7 = -t4;
  const float t8 = exp_quick(t7);
  const float t9 = fmaf(t5, t6, t8);
  const float t10 = t9 * t9;
  const float t11 = log1p_quick(t10, rare);
  const float t12 = t2 != 0.0f ? t11 : t9;
  y0 = t12;
}

extern "C" __global__ void __launch_bounds__(128, 16) deep(const float* x0, float* y0, Layout layout) {
  const long long chunk = (long long)blockIdx.x * (4 * blockDim.x) + threadIdx.x;
  if (chunk < layout.chunks) {
    const long long i = chunk * 4;
    const bool past_caches = layout.aligned == 2;
    const long long apart = (long long)blockDim.x * 4;
    if (layout.aligned && i + 3 * apart + 4 <= layout.columns) {
      float v0[16];
      load<4>(x0 + i, v0);
      load<4>(x0 + i + apart, v0 + 4);
      load<4>(x0 + i + 2 * apart, v0 + 8);
      load<4>(x0 + i + 3 * apart, v0 + 12);
      float r0[16];
      bool rare = false;
#pragma unroll
      for (int k = 0; k < 16; ++k) compute_quick(v0[k], r0[k], rare);
      if (!rare) {
      if (past_caches) {
        store<4>(r0, y0 + i, true);
        store<4>(r0 + 4, y0 + i + apart, true);
        store<4>(r0 + 8, y0 + i + 2 * apart, true);
        store<4>(r0 + 12, y0 + i + 3 * apart, true);
      } else {
        store<4>(r0, y0 + i, false);
        store<4>(r0 + 4, y0 + i + apart, false);
        store<4>(r0 + 8, y0 + i + 2 * apart, false);
        store<4>(r0 + 12, y0 + i + 3 * apart, false);
      }
        return;
      }
    }
#pragma unroll 1
    for (long long start = i; start <= i + 3 * apart; start += apart)
#pragma unroll 1
    for (long long j = start; j < start + 4 && j < layout.columns; ++j) {
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, r0);
      store(r0, y0 + j);
    }
  }
}
