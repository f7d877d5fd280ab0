// Written by weft for Metal: inputs f32 full, f32 full; outputs f32; 0 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Extent { long rows, columns, vectors; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t3 = x0 < 0.0f ? 1.0f : 0.0f;
  const float t4 = fabs(x0);
  const float t5 = -t4;
  const float t6 = precise::exp(t5);
  const float t8 = t6 + 1.0f;
  const float t9 = x1 / t8;
  const float t10 = t9 * t6;
  const float t11 = -t10;
  const float t12 = t3 != 0.0f ? t10 : t11;
  const float t13 = x0 != 0.0f ? t12 : 0.0f;
  const float t14 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t16 = x1 * 0.5f;
  const float t17 = x0 != 0.0f ? 0.0f : t16;
  const float t18 = t14 != 0.0f ? x1 : t17;
  const float t19 = t13 + t18;
  y0 = t19;
}

kernel void softplus_backward(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device float* y0 [[buffer(2)]], constant Extent& extent [[buffer(3)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
