// Written by weft for Metal: inputs f32 full, f32 full, f32 full, f32 full; outputs f32, f32, f32; 3 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Extent { long rows, columns, vectors; };
struct Parameters { float p[3]; };

static inline void compute(float x0, float x1, float x2, float x3, float p0, float p1, float p2, thread float& y0, thread float& y1, thread float& y2) {
  const float t8 = 1.0f - p1;
  const float t9 = x3 - x1;
  const float t10 = fma(t8, t9, x1);
  const float t11 = t10 * p0;
  const float t12 = -x2;
  const float t13 = fma(x3, x3, t12);
  const float t14 = 1.0f - p2;
  const float t15 = fma(t13, t14, x2);
  const float t16 = precise::sqrt(t15);
  const float t18 = t16 + 1e-08f;
  const float t19 = t11 / t18;
  const float t20 = x0 - t19;
  y0 = t20;
  y1 = t10;
  y2 = t15;
}

kernel void adam(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device const float* x3 [[buffer(3)]], device float* y0 [[buffer(4)]], device float* y1 [[buffer(5)]], device float* y2 [[buffer(6)]], constant Extent& extent [[buffer(7)]], constant Parameters& parameters [[buffer(8)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      const float v2 = load(x2 + base + i);
      const float v3 = load(x3 + base + i);
      float r0, r1, r2;
      compute(v0, v1, v2, v3, parameters.p[0], parameters.p[1], parameters.p[2], r0, r1, r2);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
      store(r2, y2 + base + i);
    }
  }
}
