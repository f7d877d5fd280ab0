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
struct Layout { long chunks, row_chunks, columns, aligned, extent[2], stride[5][2], run; };

static inline void compute(float x0, float x1, float x2, thread float& y0, thread float& y1) {
  const float t3 = fma(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

[[max_total_threads_per_threadgroup(256)]] kernel void mixed_dtypes(device const bf16* x0 [[buffer(0)]], device const half* x1 [[buffer(1)]], device const float* x2 [[buffer(2)]], device float* y0 [[buffer(3)]], device bf16* y1 [[buffer(4)]], constant Layout& layout [[buffer(5)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
  for (long start = position - lane; start < layout.chunks; start += size) {
    const bool inside = start + lane < layout.chunks;
    const long chunk = inside ? start + lane : layout.chunks - 1;
    const uint row = (uint)chunk / (uint)layout.row_chunks;
    const long i = (chunk - row * layout.row_chunks) * 1;
    const uint runs = (uint)((layout.extent[1] + layout.run - 1) / layout.run), q = row / runs;
    const long first = (row - q * runs) * layout.run;
    long at0 = q * layout.stride[0][0] + first * layout.stride[0][1];
    long at1 = q * layout.stride[1][0] + first * layout.stride[1][1];
    long at2 = q * layout.stride[2][0] + first * layout.stride[2][1];
    long at3 = q * layout.stride[3][0] + first * layout.stride[3][1];
    long at4 = q * layout.stride[4][0] + first * layout.stride[4][1];
    const ushort leader = ushort(lane - min(long(lane), i));
    float v0 = 0.0f, v1 = 0.0f, v2 = 0.0f;
    for (long r = 0; r < layout.run; ++r) {
      const bool here = inside && first + r < layout.extent[1];
      if (r == 0 || layout.stride[2][1] != 0) v2 = simd_shuffle(here && lane == leader ? load(x2 + at2) : 0.0f, leader);
      if (here) {
        if (r == 0 || layout.stride[0][1] != 0) v0 = load(x0 + at0 + i);
        if (r == 0 || layout.stride[1][1] != 0) v1 = load(x1 + at1 + i);
        float r0, r1;
        compute(v0, v1, v2, r0, r1);
        store(r0, y0 + at3 + i);
        store(r1, y1 + at4 + i);
      }
      at0 += layout.stride[0][1];
      at1 += layout.stride[1][1];
      at2 += layout.stride[2][1];
      at3 += layout.stride[3][1];
      at4 += layout.stride[4][1];
    }
  }
}
