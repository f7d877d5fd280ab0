// Written by weft for Metal: inputs bf16, bf16; outputs bf16; 0 parameters; rows over 0 axes.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
struct bf16 { ushort bits; };
static inline float load(device const bf16* p) { return as_type<float>(uint(p->bits) << 16); }
static inline void store(float x, device bf16* p) {
  const uint u = as_type<uint>(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  p->bits = ushort(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
struct Layout { long chunks, row_chunks, columns, aligned; };
static inline float sigmoid_of(float x) {
  const float e = precise::exp(-fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline void compute(float x0, float x1, thread float& y0) {
  const float t2 = sigmoid_of(x0);
  const float t3 = t2 * x0;
  const float t4 = t3 * x1;
  y0 = t4;
}

[[max_total_threads_per_threadgroup(256)]] kernel void swiglu(device const bf16* x0 [[buffer(0)]], device const bf16* x1 [[buffer(1)]], device bf16* y0 [[buffer(2)]], constant Layout& layout [[buffer(3)]], uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]) {
  const long first = position, step = size;
  for (long chunk = first; chunk < layout.chunks; chunk += step) {
    const long i = chunk * 1;
    {
      const long j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + j);
    }
  }
}
