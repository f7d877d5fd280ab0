// Written by weft for Metal: inputs f32, f32; outputs f32; 0 parameters; rows over 1 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
static inline float load(device const float* p) { return *p; }
static inline void store(float x, device float* p) { *p = x; }
struct Layout { long chunks, row_chunks, columns, aligned, extent[1], stride[3][1], run; };

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = x0 + x1;
  y0 = t2;
}

[[max_total_threads_per_threadgroup(256)]] kernel void bias_add(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]], device float* y0 [[buffer(2)]], constant Layout& layout [[buffer(3)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]], uint lane [[thread_index_in_simdgroup]]) {
  for (long start = position - lane; start < layout.chunks; start += size) {
    const bool inside = start + lane < layout.chunks;
    const long chunk = inside ? start + lane : layout.chunks - 1;
    const uint row = (uint)chunk / (uint)layout.row_chunks;
    const long i = (chunk - row * layout.row_chunks) * 1;
    const uint runs = (uint)((layout.extent[0] + layout.run - 1) / layout.run), q = row / runs;
    const long first = (row - q * runs) * layout.run;
    long at0 = first * layout.stride[0][0];
    long at1 = first * layout.stride[1][0];
    long at2 = first * layout.stride[2][0];
    const ushort leader = ushort(lane - min(long(lane), i));
    float v0 = 0.0f, v1 = 0.0f;
    for (long r = 0; r < layout.run; ++r) {
      const bool here = inside && first + r < layout.extent[0];
      if (here) {
        if (r == 0 || layout.stride[0][0] != 0) v0 = load(x0 + at0 + i);
        if (r == 0 || layout.stride[1][0] != 0) v1 = load(x1 + at1 + i);
        float r0;
        compute(v0, v1, r0);
        store(r0, y0 + at2 + i);
      }
      at0 += layout.stride[0][0];
      at1 += layout.stride[1][0];
      at2 += layout.stride[2][0];
    }
  }
}
