// Written by weft for C++: inputs bf16, f16, f32 per row; outputs f32, bf16; 0 parameters; rows over 2 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct bf16 { uint16_t bits; };
static inline float load(const bf16* p) {
  const uint32_t u = (uint32_t)p->bits << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline void store(float x, bf16* p) {
  uint32_t u;
  memcpy(&u, &x, 4);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  p->bits = (uint16_t)(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float load(const _Float16* p) { return (float)*p; }
static inline void store(float x, _Float16* p) { *p = (_Float16)x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned, extent[2], stride[5][2]; };

static inline void compute(float x0, float x1, float x2, float& y0, float& y1) {
  const float t3 = fmaf(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

extern "C" void mixed_dtypes(const bf16* x0, const _Float16* x1, const float* x2, float* y0, bf16* y1, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const uint32_t row = (uint32_t)chunk / (uint32_t)layout.row_chunks;
    const int64_t i = (chunk - row * layout.row_chunks) * 1;
    const uint32_t q1 = row / (uint32_t)layout.extent[1], c1 = row - q1 * (uint32_t)layout.extent[1];
    const int64_t at0 = q1 * layout.stride[0][0] + c1 * layout.stride[0][1];
    const int64_t at1 = q1 * layout.stride[1][0] + c1 * layout.stride[1][1];
    const int64_t at2 = q1 * layout.stride[2][0] + c1 * layout.stride[2][1];
    const int64_t at3 = q1 * layout.stride[3][0] + c1 * layout.stride[3][1];
    const int64_t at4 = q1 * layout.stride[4][0] + c1 * layout.stride[4][1];
    const float v2 = load(x2 + at2);
    {
      const int64_t j = i;
      const float v0 = load(x0 + at0 + j);
      const float v1 = load(x1 + at1 + j);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + at3 + j);
      store(r1, y1 + at4 + j);
    }
  }
}
