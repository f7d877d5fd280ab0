#include "weft/spec/truth.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"

namespace weft::spec {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return 0;
  }
}

double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16: return 0x1p-126;
    case DType::f16: return 0x1p-14;
    default: return 0;
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return float(value);
    case DType::bf16: return float(bf16(float(value)));
    case DType::f16: return float(f16(float(value)));
    case DType::i32: return int32_t(value);
    case DType::u32: return uint32_t(int64_t(value));
    case DType::u8: return uint8_t(int64_t(value));
  }
  return value;
}

double growth(double n) { return std::min(n, 8 * std::sqrt(n)); }

void Array::expect(int64_t i, double value, double scale, double roundings) {
  expect_within(i, value, growth(roundings) * unit_roundoff(DType::f32) * std::abs(scale));
}

void Array::allow_narrow(int64_t i, double size, double roundoff) {
  narrow.resize(v.size(), 0);
  narrow[size_t(i)] = roundoff * size;
}

void Array::allow_flush(int64_t i, double size) {
  flushed.resize(v.size(), 0);
  flushed[size_t(i)] = size;
}

void Array::expect_within(int64_t i, double value, double error) {
  v[size_t(i)] = value;
  if (!is_float(dtype)) {
    bound[size_t(i)] = error;
    return;
  }
  // The final rounding to the output's dtype, and the absolute error that rounding has below the normal range.
  const double to_dtype = dtype == DType::f32 ? 0 : unit_roundoff(dtype) * (std::abs(value) + error);
  bound[size_t(i)] = error + to_dtype + unit_roundoff(dtype) * smallest_normal(dtype);
}

Array& Truth::operator[](const std::string& name) {
  auto found = arrays_.find(name);
  check(found != arrays_.end(), "spec", "no operand named '", name, "'");
  return found->second;
}
const Array& Truth::operator[](const std::string& name) const { return const_cast<Truth&>(*this)[name]; }

}  // namespace weft::spec
