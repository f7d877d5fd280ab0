// Written by weft for Metal: inputs f32, f32, f32; outputs f32, f32; 0 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned; };
static inline float sigmoid_of(float x) {
  const float e = precise::exp(-fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline void compute(float x0, float x1, float x2, thread float& y0, thread float& y1) {
  const float t4 = sigmoid_of(x0);
  const float t5 = 1.0f - t4;
  const float t6 = t5 * t4;
  const float t7 = x1 * x2;
  const float t8 = t7 * x0;
  const float t9 = t4 * t7;
  const float t10 = fma(t6, t8, t9);
  const float t11 = t4 * x0;
  const float t12 = t11 * x2;
  y0 = t10;
  y1 = t12;
}

[[max_total_threads_per_threadgroup(256)]] kernel void swiglu_backward(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device float* y0 [[buffer(3)]], device float* y1 [[buffer(4)]], constant Layout& layout [[buffer(5)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const long i = chunk * 1;
    {
      const long j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      const float v2 = load(x2 + j);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + j);
      store(r1, y1 + j);
    }
  }
}
