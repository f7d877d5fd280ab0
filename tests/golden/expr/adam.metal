// Written by weft for Metal: inputs f32, f32, f32, f32; outputs f32, f32, f32; 3 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned; };
struct Parameters { float p[3]; };

static inline void compute(float x0, float x1, float x2, float x3, float p0, float p1, float p2, thread float& y0, thread float& y1, thread float& y2) {
  const float t8 = 1.0f - p1;
  const float t9 = x3 - x1;
  const float t10 = fma(t8, t9, x1);
  const float t11 = t10 * p0;
  const float t12 = -x2;
  const float t13 = fma(x3, x3, t12);
  const float t14 = 1.0f - p2;
  const float t15 = fma(t13, t14, x2);
  const float t16 = precise::sqrt(t15);
  const float t18 = t16 + 1e-08f;
  const float t19 = t11 / t18;
  const float t20 = x0 - t19;
  y0 = t20;
  y1 = t10;
  y2 = t15;
}

[[max_total_threads_per_threadgroup(256)]] kernel void adam(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device const float* x3 [[buffer(3)]], device float* y0 [[buffer(4)]], device float* y1 [[buffer(5)]], device float* y2 [[buffer(6)]], constant Layout& layout [[buffer(7)]], constant Parameters& parameters [[buffer(8)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const long i = chunk * 1;
    {
      const long j = i;
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
