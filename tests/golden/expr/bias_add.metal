// Written by weft for Metal: inputs f32 full, f32 row; outputs f32; 0 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Extent { long rows, columns, vectors; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = x0 + x1;
  y0 = t2;
}

kernel void bias_add(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device float* y0 [[buffer(2)]], constant Extent& extent [[buffer(3)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
