// Written by weft for Metal: inputs f32 full, f32 full, f32 full; outputs f32, f32; 0 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Extent { long rows, columns, vectors; };

static inline void compute(float x0, float x1, float x2, thread float& y0, thread float& y1) {
  const float t4 = 1.0f / (1.0f + precise::exp(-x0));
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

kernel void swiglu_backward(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device float* y0 [[buffer(3)]], device float* y1 [[buffer(4)]], constant Extent& extent [[buffer(5)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      const float v2 = load(x2 + base + i);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
