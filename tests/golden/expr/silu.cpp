// Written by weft for C++: inputs f32 full; outputs f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float& y0) {
  const float t1 = 1.0f / (1.0f + expf(-x0));
  const float t2 = t1 * x0;
  y0 = t2;
}

extern "C" void silu(const float* x0, float* y0, Extent extent) {
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
