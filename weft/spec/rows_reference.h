// Steps shared by the float64 references of fused row ops.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "weft/spec/truth.h"

namespace weft::spec {

// Computes h = x (+ delta), rounded, which is the expected "h" if there is a delta; returns n = h rstd w, not rounded.
inline std::vector<double> normed_rows(Truth& t, DType dtype, int64_t R, int64_t C, double eps) {
  std::vector<double> n(size_t(R * C));
  for (int64_t r = 0; r < R; ++r) {
    double squares = 0;
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = r * C + c;
      double h = t["x"][i];
      if (t.has("delta")) {
        h += t["delta"][i];
        t["h"].expect(i, h, std::abs(h), 1);
        h = round_to(dtype, h);
      }
      n[size_t(i)] = h;
      squares += h * h;
    }
    const double rstd = 1 / std::sqrt(squares / double(C) + eps);
    for (int64_t c = 0; c < C; ++c) n[size_t(r * C + c)] *= rstd * t["w"][c];
  }
  return n;
}

struct Estimate {
  double value, error;
};
// n . w + bias with n and the sum rounded to bf16. The error bound is 2^-9 of each term, and twice that of the sum for later roundings.
inline Estimate projected(const std::vector<double>& n, const Truth& t, const std::string& weight, const std::string& bias, int64_t r,
                          int64_t row, int64_t C) {
  double value = t.has(bias) ? t[bias][row] : 0, size = std::abs(value);
  for (int64_t c = 0; c < C; ++c) {
    const double term = n[size_t(r * C + c)] * t[weight][row * C + c];
    value += term;
    size += std::abs(term);
  }
  return {value, size * (0x1p-9 + double(C + 8) * 0x1p-24) + std::abs(value) * 0x1p-8};
}

}  // namespace weft::spec
