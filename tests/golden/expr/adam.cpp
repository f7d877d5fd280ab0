// Written by weft for C++: inputs f32, f32, f32, f32; outputs f32, f32, f32; 3 parameters; rows over 0 axes.
#include <math.h>
#include <stdint.h>
#include <string.h>
static inline float load(const float* p) { return *p; }
static inline void store(float x, float* p) { *p = x; }
struct Layout { int64_t chunks, row_chunks, columns, aligned; };
struct Parameters { float p[3]; };

static inline void compute(float x0, float x1, float x2, float x3, float p0, float p1, float p2, float& y0, float& y1, float& y2) {
  const float t8 = 1.0f - p1;
  const float t9 = x3 - x1;
  const float t10 = fmaf(t8, t9, x1);
  const float t11 = t10 * p0;
  const float t12 = -x2;
  const float t13 = fmaf(x3, x3, t12);
  const float t14 = 1.0f - p2;
  const float t15 = fmaf(t13, t14, x2);
  const float t16 = sqrtf(t15);
  const float t18 = t16 + 1e-08f;
  const float t19 = t11 / t18;
  const float t20 = x0 - t19;
  y0 = t20;
  y1 = t10;
  y2 = t15;
}

extern "C" void adam(const float* x0, const float* x1, const float* x2, const float* x3, float* y0, float* y1, float* y2, Layout layout, Parameters parameters) {
  const int64_t first = 0, step = 1;
  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {
    const int64_t i = chunk * 1;
    {
      const int64_t j = i;
      const float v0 = load(x0 + j);
      const float v1 = load(x1 + j);
      const float v2 = load(x2 + j);
      const float v3 = load(x3 + j);
      float r0, r1, r2;
      compute(v0, v1, v2, v3, parameters.p[0], parameters.p[1], parameters.p[2], r0, r1, r2);
      store(r0, y0 + j);
      store(r1, y1 + j);
      store(r2, y2 + j);
    }
  }
}
