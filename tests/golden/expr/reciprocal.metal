// Written by weft for Metal: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned; };

static inline void compute(float x0, thread float& y0) {
  const float t1 = 1.0f / x0;
  y0 = t1;
}

[[max_total_threads_per_threadgroup(256)]] kernel void reciprocal(device const float* x0 [[buffer(0)]], device float* y0 [[buffer(1)]], constant Layout& layout [[buffer(2)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
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
