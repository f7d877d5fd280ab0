// Written by weft for Metal: inputs bf16 full, f16 full, f32 scalar; outputs f32, bf16; 0 parameters.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct bf16 { ushort bits; };
static inline float load(device const bf16* p) { return as_type<float>(uint(p->bits) << 16); }
static inline void store(float x, device bf16* p) {
  const uint u = as_type<uint>(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  p->bits = ushort(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float load(device const half* p) { return float(*p); }
static inline void store(float x, device half* p) { *p = half(x); }
struct Extent { long rows, columns, vectors; };

static inline void compute(float x0, float x1, float x2, thread float& y0, thread float& y1) {
  const float t3 = fma(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

kernel void mixed_dtypes(device const bf16* x0 [[buffer(0)]], device const half* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device float* y0 [[buffer(3)]], device bf16* y1 [[buffer(4)]], constant Extent& extent [[buffer(5)]], uint2 position [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  const long first = position.x, step = size.x, first_row = position.y, row_step = size.y;
  const float v2 = load(x2);
  for (long row = first_row; row < extent.rows; row += row_step) {
    const long base = row * extent.columns;
    for (long i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
