// Written by weft for Metal: inputs f32, f32 per row; outputs f32; 0 parameters; rows over 1 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned, extent[1], stride[3][1]; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = x0 * x1;
  y0 = t2;
}

kernel void row_scale(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device float* y0 [[buffer(2)]], constant Layout& layout [[buffer(3)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const uint row = (uint)chunk / (uint)layout.row_chunks;
    const long i = (chunk - row * layout.row_chunks) * 1;
    const long at0 = row * layout.stride[0][0];
    const long at1 = row * layout.stride[1][0];
    const long at2 = row * layout.stride[2][0];
    const float v1 = load(x1 + at1);
    {
      const long j = i;
      const float v0 = load(x0 + at0 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + at2 + j);
    }
  }
}
