// Written by weft for C++: inputs bf16 full, f16 full, f32 scalar; outputs f32, bf16; 0 parameters.
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
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float x1, float x2, float& y0, float& y1) {
  const float t3 = fmaf(x0, x1, x2);
  const float t4 = x0 - x1;
  y0 = t3;
  y1 = t4;
}

extern "C" void mixed_dtypes(const bf16* x0, const _Float16* x1, const float* x2, float* y0, bf16* y1, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  const float v2 = load(x2);
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
