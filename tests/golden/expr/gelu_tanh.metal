// Written by weft for Metal: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
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

static inline void compute(float x0, thread float& y0) {
  const float t1 = x0 * x0;
  const float t4 = fma(t1, 0.071354814f, 1.5957692f);
  const float t5 = t4 * x0;
  const float t6 = sigmoid_of(t5);
  const float t7 = t6 * x0;
  y0 = t7;
}

[[max_total_threads_per_threadgroup(256)]] kernel void gelu_tanh(device const float* x0 [[buffer(0)]], device float* y0 [[buffer(1)]], constant Layout& layout [[buffer(2)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
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
