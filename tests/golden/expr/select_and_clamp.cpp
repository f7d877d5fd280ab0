// Written by weft for C++: inputs f32 full, f32 full; outputs f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float x1, float& y0) {
  const float t2 = x0 < x1 ? 1.0f : 0.0f;
  const float t4 = x0 < (-1.0f) ? 1.0f : 0.0f;
  const float t6 = 1.0f < x0 ? 1.0f : 0.0f;
  const float t7 = t6 != 0.0f ? 1.0f : x0;
  const float t8 = t4 != 0.0f ? (-1.0f) : t7;
  const float t9 = floorf(x0);
  const float t12 = x1 < 0.0f || 0.0f != 0.0f ? 0.0f : x1;
  const float t13 = fmaf(t9, __builtin_bit_cast(float, 0xff800000u), t12);
  const float t14 = t2 != 0.0f ? t8 : t13;
  y0 = t14;
}

extern "C" void select_and_clamp(const float* x0, const float* x1, float* y0, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
