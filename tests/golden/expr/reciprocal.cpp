// Written by weft for C++: inputs f32; outputs f32; 0 parameters; rows over 0 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned; };

static inline void compute(float x0, float& y0) {
  const float t1 = 1.0f / x0;
  y0 = t1;
}

extern "C" void reciprocal(const float* x0, float* y0, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const int64_t i = chunk * 1;
    {
      const int64_t j = i;
      const float v0 = load(x0 + j);
      float r0;
      compute(v0, r0);
      store(r0, y0 + j);
    }
  }
}
