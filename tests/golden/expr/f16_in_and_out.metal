// Written by weft for Metal: inputs f16 full, f16 scalar; outputs f16; 0 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const half* p) { return float(*p); }
static inline void store(float x, device half* p) { *p = half(x); }
struct Extent { long rows, columns, vectors; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = fabs(x0);
  const float t3 = precise::pow(t2, x1);
  y0 = t3;
}

kernel void f16_in_and_out(device const half* x0 [[buffer(0)]], device const half* x1 [[buffer(1)]], device half* y0 [[buffer(2)]], constant Extent& extent [[buffer(3)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  const float v1 = load(x1);
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
