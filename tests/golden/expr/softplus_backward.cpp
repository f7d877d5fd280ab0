// Written by weft for C++: inputs f32, f32; outputs f32; 0 parameters; rows over 0 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned; };

static inline void compute(float x0, float x1, float& y0) {
  const float t3 = x0 < 0.0f ? 1.0f : 0.0f;
  const float t4 = fabsf(x0);
  const float t5 = -t4;
  const float t6 = expf(t5);
  const float t8 = t6 + 1.0f;
  const float t9 = x1 / t8;
  const float t10 = t9 * t6;
  const float t11 = -t10;
  const float t12 = t3 != 0.0f ? t10 : t11;
  const float t13 = x0 != 0.0f ? t12 : 0.0f;
  const float t14 = 0.0f < x0 ? 1.0f : 0.0f;
  const float t16 = x1 * 0.5f;
  const float t17 = x0 != 0.0f ? 0.0f : t16;
  const float t18 = t14 != 0.0f ? x1 : t17;
  const float t19 = t13 + t18;
  y0 = t19;
}

extern "C" void softplus_backward(const float* x0, const float* x1, float* y0, Layout layout) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const int64_t i = chunk * 1;
    {
      const int64_t j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      float r0;
      compute(v0, v1, r0);
      store(r0, y0 + j);
    }
  }
}
