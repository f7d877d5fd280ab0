// Written by weft for C++: inputs f32, f32; outputs f32; 0 parameters; rows over 1 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned, extent[1], stride[3][1]; };

static inline void compute(float x0, float x1, float& y0) {
  const float t2 = x0 + x1;
  y0 = t2;
}

extern "C" void bias_add(const float* x0, const float* x1, float* y0, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const uint32_t row = (uint32_t)chunk / (uint32_t)layout.row_chunks;
    const int64_t i = (chunk - row * layout.row_chunks) * 1;
    const int64_t at0 = row * layout.stride[0][0];
    const int64_t at1 = row * layout.stride[1][0];
    const int64_t at2 = row * layout.stride[2][0];
    {
      const int64_t j = i;
      const float v0 = load(x0 + at0 + j);
      const float v1 = load(x1 + at1 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + at2 + j);
    }
  }
}
