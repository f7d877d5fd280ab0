// Written by weft for C++: inputs bf16, bf16; outputs bf16; 0 parameters; rows over 0 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
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
struct Layout { int64_t chunks, row_chunks, columns, aligned; };

static inline void compute(float x0, float x1, float& y0) {
  const float t2 = 1.0f / (1.0f + expf(-x0));
  const float t3 = t2 * x0;
  const float t4 = t3 * x1;
  y0 = t4;
}

extern "C" void swiglu(const bf16* x0, const bf16* x1, bf16* y0, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const int64_t i = chunk * 1;
    {
      const int64_t j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + j);
    }
  }
}
