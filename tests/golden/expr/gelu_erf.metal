// Written by weft for Metal: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned; };
static inline float erf_of(float x) {
  const float a = fabs(x), t = x * x, b = a < 4.0f ? a : 4.0f;
  float p = fma(7.85386073e-05f, t, -0.000801019371f);
  p = fma(fma(fma(p, t, 0.00518832775f), t, -0.0268538129f), t, 0.112835854f);
  p = fma(fma(p, t, -0.37612626f), t, 0.12837917f);
  float q = fma(-3.13029996e-05f, b, 0.000636909856f);
  q = fma(fma(fma(q, b, -0.00606694072f), b, 0.036370825f), b, -0.156420007f);
  q = fma(fma(fma(q, b, -0.913538158f), b, -1.62963986f), b, 0.000271899684f);
  return a > 1.0f ? copysign(1.0f - precise::exp2(q), x) : fma(x, p, x);
}

static inline void compute(float x0, thread float& y0) {
  const float t2 = x0 * 0.70710677f;
  const float t3 = erf_of(t2);
  const float t5 = t3 + 1.0f;
  const float t7 = x0 * 0.5f;
  const float t8 = t5 * t7;
  y0 = t8;
}

[[max_total_threads_per_threadgroup(256)]] kernel void gelu_erf(device const float* x0 [[buffer(0)]], device float* y0 [[buffer(1)]], constant Layout& layout [[buffer(2)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const long i = chunk * 1;
    {
      const long j = i;
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, r0);
      store(r0, y0 + j);
    }
  }
}
