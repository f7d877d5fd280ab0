// Written by weft for C++: inputs f32 full, f32 full, f32 full; outputs f32, f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float x1, float x2, float& y0, float& y1) {
  const float t4 = 1.0f / (1.0f + expf(-x0));
  const float t5 = 1.0f - t4;
  const float t6 = t5 * t4;
  const float t7 = x1 * x2;
  const float t8 = t7 * x0;
  const float t9 = t4 * t7;
  const float t10 = fmaf(t6, t8, t9);
  const float t11 = t4 * x0;
  const float t12 = t11 * x2;
  y0 = t10;
  y1 = t12;
}

extern "C" void swiglu_backward(const float* x0, const float* x1, const float* x2, float* y0, float* y1, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + base + i);
      const float v2 = load(x2 + base + i);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
