// Written by weft for Metal: inputs f16, f16 per row; outputs f16; 0 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const half* p) { return float(*p); }
static inline void store(float x, device half* p) { *p = half(x); }
struct Layout { long chunks, row_chunks, columns, aligned; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = fabs(x0);
  const float t3 = precise::pow(t2, x1);
  y0 = t3;
}

[[max_total_threads_per_threadgroup(256)]] kernel void f16_in_and_out(device const half* x0 [[buffer(0)]], device const half* x1 [[buffer(1)]], device half* y0 [[buffer(2)]], constant Layout& layout [[buffer(3)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const float v1 = simd_broadcast(lane == 0 ? load(x1) : 0.0f, 0);
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const long i = chunk * 1;
    {
      const long j = i;
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + j);
    }
  }
}
