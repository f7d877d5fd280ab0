// Written by weft for Metal: inputs bf16, f16, f32 per row; outputs f32, bf16; 0 parameters; rows over 2 axes.
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
struct Layout { long chunks, row_chunks, columns, aligned, extent[2], stride[5][2]; };

static inline void compute(float x0, float x1, float x2, thread float& y0, thread float& y1) {
  const float t3 = fma(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

kernel void mixed_dtypes(device const bf16* x0 [[buffer(0)]], device const half* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device float* y0 [[buffer(3)]], device bf16* y1 [[buffer(4)]], constant Layout& layout [[buffer(5)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const uint row = (uint)chunk / (uint)layout.row_chunks;
    const long i = (chunk - row * layout.row_chunks) * 1;
    const uint q1 = row / (uint)layout.extent[1], c1 = row - q1 * (uint)layout.extent[1];
    const long at0 = q1 * layout.stride[0][0] + c1 * layout.stride[0][1];
    const long at1 = q1 * layout.stride[1][0] + c1 * layout.stride[1][1];
    const long at2 = q1 * layout.stride[2][0] + c1 * layout.stride[2][1];
    const long at3 = q1 * layout.stride[3][0] + c1 * layout.stride[3][1];
    const long at4 = q1 * layout.stride[4][0] + c1 * layout.stride[4][1];
    const float v2 = load(x2 + at2);
    {
      const long j = i;
      const float v0 = load(x0 + at0 + j);
      const float v1 = load(x1 + at1 + j);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + at3 + j);
      store(r1, y1 + at4 + j);
    }
  }
}
