// Written by weft for C++: inputs f32 full; outputs f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float& y0) {
  const float t1 = fabsf(x0);
  const float t2 = -t1;
  const float t3 = expf(t2);
  const float t4 = log1pf(t3);
  const float t6 = x0 < 0.0f || 0.0f != 0.0f ? 0.0f : x0;
  const float t7 = t4 + t6;
  y0 = t7;
}

extern "C" void softplus(const float* x0, float* y0, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      float r0;
      compute(v0, r0);
      store(r0, y0 + base + i);
    }
  }
}
