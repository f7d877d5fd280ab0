// Written by weft for C++: inputs f32 full; outputs f32, f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float& y0, float& y1) {
  const float t1 = sinf(x0);
  const float t2 = cosf(x0);
  y0 = t1;
  y1 = t2;
}

extern "C" void sine_and_cosine(const float* x0, float* y0, float* y1, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      float r0, r1;
      compute(v0, r0, r1);
      store(r0, y0 + base + i);
      store(r1, y1 + base + i);
    }
  }
}
