// Written by weft for CUDA: inputs f32 full, f32 full, f32 full, f32 full; outputs f32, f32, f32; 3 parameters.
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ void narrow(float x, float& to) { to = x; }
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
struct Parameters { float p[3]; };

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

extern "C" __global__ void adam(const float* x0, const float* x1, const float* x2, const float* x3, float* y0, float* y1, float* y2, Extent extent, Parameters parameters) {
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;
  const long long first_row = blockIdx.y, row_step = gridDim.y;
  for (long long row = first_row; row < extent.rows; row += row_step) {
    const long long base = row * extent.columns;
    for (long long i = first * 4; i < extent.vectors; i += step * 4) {
      float v0[4];
      load(x0 + base + i, v0);
      float v1[4];
      load(x1 + base + i, v1);
      float v2[4];
      load(x2 + base + i, v2);
      float v3[4];
      load(x3 + base + i, v3);
      float r0[4], r1[4], r2[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) compute(v0[k], v1[k], v2[k], v3[k], parameters.p[0], parameters.p[1], parameters.p[2], r0[k], r1[k], r2[k]);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
      store(r2, y2 + base + i);
    }
    for (long long i = extent.vectors + first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      const float v2 = load(x2 + base + i);
      const float v3 = load(x3 + base + i);
      float r0, r1, r2;
      compute(v0, v1, v2, v3, parameters.p[0], parameters.p[1], parameters.p[2], r0, r1, r2);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
      store(r2, y2 + base + i);
    }
  }
}
