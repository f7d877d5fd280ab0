// Written by weft for CUDA: inputs bf16 full, f16 full, f32 scalar; outputs f32, bf16; 0 parameters.
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ void narrow(float x, float& to) { to = x; }
struct bf16 { unsigned short bits; };
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ __forceinline__ void narrow(float x, bf16& to) {
  const unsigned u = __float_as_uint(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  to.bits = (unsigned short)(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
struct f16 { unsigned short bits; };
__device__ __forceinline__ float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ void narrow(float x, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
template <class T> __device__ __forceinline__ float load(const T* p) { return widen(*p); }
template <class T> __device__ __forceinline__ void store(float x, T* p) { narrow(x, *p); }
template <class T> struct alignas(16) Vector { T part[16 / sizeof(T)]; };
template <int N, class T> __device__ __forceinline__ void load(const T* p, float (&x)[N]) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    const Vector<T> v = reinterpret_cast<const Vector<T>*>(p)[j];
#pragma unroll
    for (int k = 0; k < n; ++k) x[j * n + k] = widen(v.part[k]);
  }
}
template <int N, class T> __device__ __forceinline__ void store(const float (&x)[N], T* p) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    Vector<T> v;
#pragma unroll
    for (int k = 0; k < n; ++k) narrow(x[j * n + k], v.part[k]);
    reinterpret_cast<Vector<T>*>(p)[j] = v;
  }
}
struct Extent { long long rows, columns, vectors; };

__device__ __forceinline__ void compute(float x0, float x1, float x2, float& y0, float& y1) {
  const float t3 = fmaf(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

extern "C" __global__ void mixed_dtypes(const bf16* x0, const f16* x1, const float* x2, float* y0, bf16* y1, Extent extent) {
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;
  const long long first_row = blockIdx.y, row_step = gridDim.y;
  const float v2 = load(x2);
  for (long long row = first_row; row < extent.rows; row += row_step) {
    const long long base = row * extent.columns;
    for (long long i = first * 8; i < extent.vectors; i += step * 8) {
      float v0[8];
      load(x0 + base + i, v0);
      float v1[8];
      load(x1 + base + i, v1);
      float r0[8], r1[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) compute(v0[k], v1[k], v2, r0[k], r1[k]);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
    for (long long i = extent.vectors + first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
