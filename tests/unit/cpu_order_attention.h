// Attention in the CPU's one order (weft/tile/cpu/order.h), one query at a time.
#pragma once

#include <algorithm>

#include "tests/unit/cpu_order.h"
#include "weft/tile/cpu/order.h"

namespace weft::cpu_order {

// weft/tile/cpu/math.h's exponential.
inline float exponential(float x) {
  constexpr float kLog2E = 0x1.715476p0f, kLn2 = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f, kShift = 0x1.8p23f + 254;
  constexpr float kP[] = {1.0f, 1.0f, 0.49999994f, 0.166665211f, 0.0416682735f, 0.00836868491f, 0.00138201076f};
  x = std::clamp(x, -104.0f, 89.0f);
  const float shifted = std::fma(x, kLog2E, kShift), n = shifted - kShift;
  const float r = std::fma(-n, kLn2Low, std::fma(-n, kLn2, x));
  float p = kP[6];
  for (int i = 5; i >= 0; --i) p = std::fma(p, r, kP[i]);
  return std::ldexp(p, int(n));
}

// The sums of one query over a segment: o [D], relative to the maximum m.
struct Sums {
  float m = -INFINITY, l = 0;
  std::vector<float> o;
};

// q [D]; k(j), v(j): the rows [D] of position j.
struct Attention {
  DType dtype;
  int64_t D;
  float scale;

  template <class K, class V>
  void tile(Sums& sums, const float* q, int64_t first, int64_t count, K k, V v) const {
    const Kind kind = kind_of(dtype);
    const auto at = [](const float* x) { return [x](int64_t i) { return x[i]; }; };
    std::vector<float> p(static_cast<size_t>(count));
    float m = sums.m;
    for (int64_t j = 0; j < count; ++j) {
      p[size_t(j)] = scale * dot(kind, 0, D, at(q), at(k(first + j)));
      m = std::max(m, p[size_t(j)]);
    }
    const float factor = exponential(sums.m - m);
    sums.m = m;
    sums.l = sums.l * factor;
    for (float& x : p) {
      x = exponential(x - m);
      sums.l = sums.l + x;
      if (kind != Kind::chain) x = float(bf16(x));
    }
    for (int64_t d = 0; d < D; ++d)
      sums.o[size_t(d)] = dot(kind, sums.o[size_t(d)] * factor, count, at(p.data()), [&](int64_t j) { return v(first + j)[d]; });
  }

  // o of a query that attends to positions 0 .. n - 1.
  template <class K, class V>
  std::vector<float> operator()(const float* q, int64_t n, K k, V v) const {
    Sums total;
    for (int64_t begin = 0; begin < n; begin += cpu::kSegment) {
      Sums sums{.o = std::vector<float>(static_cast<size_t>(D), 0.0f)};
      const int64_t end = std::min(n, begin + cpu::kSegment);
      for (int64_t j = begin; j < end; j += cpu::kKeyTile) tile(sums, q, j, std::min(cpu::kKeyTile, end - j), k, v);
      if (begin == 0) {
        total = sums;
        continue;
      }
      const float m = std::max(total.m, sums.m), keep = exponential(total.m - m), take = exponential(sums.m - m);
      total.m = m;
      total.l = total.l * keep + sums.l * take;
      for (size_t d = 0; d < total.o.size(); ++d) total.o[d] = std::fma(sums.o[d], take, total.o[d] * keep);
    }
    for (float& x : total.o) {
      x = x * (1.0f / total.l) + 0.0f;
      if (dtype == DType::bf16) x = float(bf16(x));
    }
    return total.o;
  }
};

}  // namespace weft::cpu_order
