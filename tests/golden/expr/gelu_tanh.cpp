// Written by weft for C++: inputs f32 full; outputs f32; 0 parameters.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Extent { int64_t rows, columns, vectors; };

static inline void compute(float x0, float& y0) {
  const float t1 = x0 * x0;
  const float t4 = fmaf(t1, 0.071354814f, 1.5957692f);
  const float t5 = t4 * x0;
  const float t6 = 1.0f / (1.0f + expf(-t5));
  const float t7 = t6 * x0;
  y0 = t7;
}

extern "C" void gelu_tanh(const float* x0, float* y0, Extent extent) {
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
