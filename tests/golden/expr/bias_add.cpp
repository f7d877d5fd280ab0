// Written by weft for C++: inputs f32 full, f32 row; outputs f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float x1, float& y0) {
  const float t2 = x0 + x1;
  y0 = t2;
}

extern "C" void bias_add(const float* x0, const float* x1, float* y0, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      const float v1 = load(x1 + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
