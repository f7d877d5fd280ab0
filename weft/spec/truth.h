// Float64 truth on the host, and the bounds that measured results are held to.
//
// A bound is derived, never tuned: u is the unit roundoff of a dtype, `scale` the sum of the magnitudes that were
// added up (rounding errors are relative to it), `roundings` the number of f32 roundings a value went through. n
// roundings in a row err by at most n u; random signs make 8 sqrt(n) u a bound that fails about once in 10^13
// (Higham and Mary, 2019), so a long sum is held to that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/shape.h"

namespace weft::spec {

double unit_roundoff(DType dtype);    // 2^-24 for f32, 2^-8 for bf16, 2^-11 for f16, 0 for integers
double smallest_normal(DType dtype);  // results below this may lose all their digits
double round_to(DType dtype, double value);
double growth(double roundings);  // min(n, 8 sqrt(n))

// One operand: its values in row-major order and, for an output, the error allowed for each.
struct Array {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<double> v;
  std::vector<double> bound;
  std::vector<double> narrow;   // the further error of CUDA's matrix units, which take 16-bit operands; often none
  bool narrow_on_cpu = false;   // the CPU too: it multiplies 16-bit operands there
  std::vector<double> flushed;  // the part lost where numbers below the smallest normal one are zero; often none

  double operator[](int64_t i) const { return v[size_t(i)]; }
  int64_t size() const { return int64_t(v.size()); }

  // Element i should be `value`, up to `roundings` f32 roundings of quantities of size `scale` and one rounding to
  // the output's dtype. An output of integers, or scale 0, must match exactly.
  void expect(int64_t i, double value, double scale, double roundings);
  // As above with a bound of the caller's own derivation (in absolute terms), before the rounding to dtype.
  void expect_within(int64_t i, double value, double error);
  // Values of total magnitude `size` are rounded on such a device before they are multiplied: to bf16, or by `roundoff`.
  void allow_narrow(int64_t i, double size, double roundoff = 0x1p-8);
  // On such a device this much of the value is missing, since a factor on the way is below the smallest normal number.
  void allow_flush(int64_t i, double size);
};

// The operands of one problem by name.
class Truth {
 public:
  Array& operator[](const std::string& name);
  const Array& operator[](const std::string& name) const;
  bool has(const std::string& name) const { return arrays_.contains(name); }
  void add(const std::string& name, Array array) { arrays_[name] = std::move(array); }

 private:
  std::map<std::string, Array> arrays_;
};

}  // namespace weft::spec
