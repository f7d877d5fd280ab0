// Written by weft for C++: inputs f16 full, f16 scalar; outputs f16; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const _Float16* p) { return (float)*p; }
static inline void store(float x, _Float16* p) { *p = (_Float16)x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float x1, float& y0) {
  const float t2 = fabsf(x0);
  const float t3 = powf(t2, x1);
  y0 = t3;
}

extern "C" void f16_in_and_out(const _Float16* x0, const _Float16* x1, _Float16* y0, Extent extent) {
  const int64_t first = 0, step = 1, first_row = 0, row_step = 1;
  const float v1 = load(x1);
  for (int64_t row = first_row; row < extent.rows; row += row_step) {
    const int64_t base = row * extent.columns;
    for (int64_t i = first; i < extent.columns; i += step) {
      const float v0 = load(x0 + base + i);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + base + i);
    }
  }
}
