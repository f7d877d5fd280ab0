// Written by weft for C++: inputs f32, f32, f32; outputs f32, f32; 0 parameters; rows over 0 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned; };

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

extern "C" void swiglu_backward(const float* x0, const float* x1, const float* x2, float* y0, float* y1, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const int64_t i = chunk * 1;
    {
      const int64_t j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      const float v2 = load(x2 + j);
      float r0, r1;
      compute(v0, v1, v2, r0, r1);
      store(r0, y0 + j);
      store(r1, y1 + j);
    }
  }
}
