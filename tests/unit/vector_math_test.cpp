// The vector functions against the C library in double, over the whole range of floats: the error in ulp stays within the documented bound
// (docs/numerics.md), special values are correct, and every instruction set gives the same bits. WEFT_ULP_STRIDE=1 tests every float
// instead of every 1543rd (prime, so that all low bits occur).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/vector_math_test.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/erf.h"
#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/trig.h"

#ifndef WEFT_VECTOR_MATH_TEST_ONCE_
#define WEFT_VECTOR_MATH_TEST_ONCE_
namespace weft::cpu {
enum class Function { exp, exp2, log, log2, tanh, sigmoid, rsqrt, erf, sin, cos, tan, atan2 };
}
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class F>
void each_block(int64_t n, const float* x, float* out, F f) {
  for (int64_t i = 0; i < n; i += kBlock) store(f(load(x + i)), out + i);
}

// out = f(x), or f(y, x) for two arguments; n is a multiple of sixteen.
void evaluate(Function function, int64_t n, const float* x, const float* y, float* out) {
  switch (function) {
    case Function::exp: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return exp(v); });
    case Function::exp2: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return exp2(v); });
    case Function::log: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return log(v); });
    case Function::log2: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return log2(v); });
    case Function::tanh: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return tanh(v); });
    case Function::sigmoid: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return sigmoid(v); });
    case Function::rsqrt: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return rsqrt(v); });
    case Function::erf: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return erf(v); });
    case Function::sin: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return sin(v); });
    case Function::cos: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return cos(v); });
    case Function::tan: return each_block(n, x, out, [](F32x16 v) HWY_ATTR { return tan(v); });
    case Function::atan2:
      for (int64_t i = 0; i < n; i += kBlock) store(atan2(load(y + i), load(x + i)), out + i);
  }
}

// The scalar forms.
void evaluate_scalar(Function function, int64_t n, const float* x, const float* y, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    switch (function) {
      case Function::exp: out[i] = exp(x[i]); break;
      case Function::exp2: out[i] = exp2(x[i]); break;
      case Function::log: out[i] = log(x[i]); break;
      case Function::log2: out[i] = log2(x[i]); break;
      case Function::tanh: out[i] = tanh(x[i]); break;
      case Function::sigmoid: out[i] = sigmoid(x[i]); break;
      case Function::rsqrt: out[i] = rsqrt(x[i]); break;
      case Function::erf: out[i] = erf(x[i]); break;
      case Function::sin: out[i] = sin(x[i]); break;
      case Function::cos: out[i] = cos(x[i]); break;
      case Function::tan: out[i] = tan(x[i]); break;
      case Function::atan2: out[i] = atan2(y[i], x[i]); break;
    }
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace weft::cpu {
namespace {

HWY_EXPORT(evaluate);
HWY_EXPORT(evaluate_scalar);

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = std::numeric_limits<float>::denorm_min(), kMost = std::numeric_limits<float>::max();

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void use_targets(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);  // 0: restore all
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}
std::vector<int64_t> usable_targets() {
  use_targets(0);
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

// f(x) by every target, which must agree in every bit.
class Evaluator {
 public:
  const std::vector<float>& operator()(Function function, std::vector<float> x, std::vector<float> y = {}) {
    const size_t padded = (x.size() + 15) / 16 * 16;
    x.resize(padded), y.resize(padded), first_.resize(padded), other_.resize(padded);
    for (size_t t = 0; t < targets_.size(); ++t) {
      use_targets(targets_[t]);
      auto& out = t ? other_ : first_;
      HWY_DYNAMIC_DISPATCH(evaluate)(function, int64_t(padded), x.data(), y.data(), out.data());
      if (t == 0 || std::memcmp(first_.data(), other_.data(), padded * sizeof(float)) == 0) continue;
      for (size_t i = 0; i < padded; ++i)
        if (to_bits(first_[i]) != to_bits(other_[i])) {
          ADD_FAILURE() << hwy::TargetName(targets_[0]) << " and " << hwy::TargetName(targets_[t]) << " differ at x = " << x[i]
                        << ", y = " << y[i] << ": " << first_[i] << " and " << other_[i];
          break;
        }
    }
    use_targets(0);
    return first_;
  }

 private:
  std::vector<int64_t> targets_ = usable_targets();
  std::vector<float> first_, other_;
};

// The error in ulp of the float nearest to the exact value. A value past the largest float counts as 2^128, which infinity stands for. A
// wrong NaN, infinity or sign of zero counts as infinite.
double ulps(float got, double truth) {
  if (std::isnan(truth) || std::isnan(got)) return std::isnan(truth) && std::isnan(got) ? 0 : HUGE_VAL;
  if (got == 0 && std::signbit(got) != std::signbit(truth)) return HUGE_VAL;
  const auto bounded = [](double v) { return std::fmin(std::fmax(v, -0x1p128), 0x1p128); };
  const double t = bounded(truth), distance = std::fabs(bounded(got) - t);
  if (distance == 0) return 0;
  int exponent = 0;
  std::frexp(t, &exponent);  // |t| in [2^(exponent - 1), 2^exponent)
  return std::ldexp(distance, 23 - std::min(std::max(exponent - 1, -126), 127));
}

// Every stride-th float, and densely around the places where a function switches algorithms.
template <class F>
void for_each_batch(F&& body) {
  const char* asked = std::getenv("WEFT_ULP_STRIDE");
  const uint64_t stride = asked ? std::max(1, std::atoi(asked)) : 1543;
  constexpr size_t kBatch = 1 << 16;
  std::vector<float> x;
  const auto add = [&](float v) {
    x.push_back(v);
    if (x.size() == kBatch) body(x), x.clear();
  };
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += stride) add(from_bits(uint32_t(bits)));
  const auto around = [&](double centre, int32_t width) {
    const uint32_t middle = to_bits(float(centre));
    for (int32_t k = -width; k <= width; ++k) add(from_bits(middle + uint32_t(k))), add(-from_bits(middle + uint32_t(k)));
  };
  for (double edge : {0.0, 0x1p-126, 0x1p-24, 0x1p-12, 1.0, double(kMost)}) around(edge, 5000);
  for (double edge : {0.17328679514, 0.34657359028, 2 / 3.0, 0.625, 4 / 3.0,  4.0,   9.0109, 10.0,  16.6,  87.3365, 88.7228,
                      89.0,          103.97,        104.0,   126.0, 127.9999, 128.0, 149.0,  150.0, 151.0, 0x1p17})
    around(edge, 2000);
  constexpr double kQuarter = 1.57079632679489662 / 2;
  for (int k = 1; k < 20000; ++k) around(k * kQuarter, 3);
  for (int k = 20000; k < (1 << 24); k += 997) around(k * kQuarter, 1);
  x.resize((x.size() + 15) / 16 * 16);
  body(x);
}

struct Worst {
  double error = 0;
  float x = 0, got = 0;
  double truth = 0;
};

// At most `bound` ulp, and never outside [-limit, limit].
void expect_within(const char* name, Function function, double (*truth)(double), double bound, float limit = kInf) {
  Evaluator evaluate;
  Worst worst;
  int64_t count = 0;
  for_each_batch([&](const std::vector<float>& x) {
    const std::vector<float>& got = evaluate(function, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = truth(x[i]), error = std::fabs(got[i]) > limit ? HUGE_VAL : ulps(got[i], expected);
      if (error > worst.error) worst = {error, x[i], got[i], expected};
    }
    count += int64_t(x.size());
  });
  std::printf("%-8s %10lld values, at most %.3f ulp, at x = %a\n", name, static_cast<long long>(count), worst.error, worst.x);
  EXPECT_LE(worst.error, bound) << name << "(" << worst.x << ") = " << worst.got << ", not " << worst.truth;
}

TEST(VectorMath, Exp) { expect_within("exp", Function::exp, std::exp, 1); }
TEST(VectorMath, Exp2) { expect_within("exp2", Function::exp2, std::exp2, 1); }
TEST(VectorMath, Log) { expect_within("log", Function::log, std::log, 1); }
TEST(VectorMath, Log2) { expect_within("log2", Function::log2, std::log2, 1.5); }
TEST(VectorMath, Tanh) { expect_within("tanh", Function::tanh, std::tanh, 2, 1); }
TEST(VectorMath, Erf) { expect_within("erf", Function::erf, std::erf, 1.25, 1); }
TEST(VectorMath, Sin) { expect_within("sin", Function::sin, std::sin, 1.75, 1); }
TEST(VectorMath, Cos) { expect_within("cos", Function::cos, std::cos, 1.75, 1); }
TEST(VectorMath, Tan) { expect_within("tan", Function::tan, std::tan, 3.5); }
TEST(VectorMath, Sigmoid) {
  expect_within("sigmoid", Function::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 2.5, 1);
}
TEST(VectorMath, Rsqrt) {
  expect_within("rsqrt", Function::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5);
}

// Pairs of different magnitudes, of similar magnitudes (the second is the first times a factor in [1/8, 8]), and equal ones.
TEST(VectorMath, Atan2) {
  Evaluator evaluate;
  Worst worst;
  float worst_y = 0;
  uint32_t state = 1;
  for_each_batch([&](const std::vector<float>& x) {
    std::vector<float> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      const float factor = from_bits((state & 0x807fffffu) | (124u + (state >> 28) % 6) << 23);
      y[i] = i % 8 == 0 ? from_bits(state) : i % 64 == 1 ? x[i] : x[i] * factor;
    }
    const std::vector<float>& got = evaluate(Function::atan2, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::atan2(double(y[i]), double(x[i])), error = ulps(got[i], expected);
      if (error > worst.error) worst = {error, x[i], got[i], expected}, worst_y = y[i];
    }
  });
  std::printf("atan2    at most %.3f ulp, at y = %a, x = %a\n", worst.error, worst_y, worst.x);
  EXPECT_LE(worst.error, 1.75) << "atan2(" << worst_y << ", " << worst.x << ") = " << worst.got << ", not " << worst.truth;
}

struct Case {
  Function function;
  float x, want;
};

TEST(VectorMath, SpecialValues) {
  using enum Function;
  Evaluator evaluate;
  const Case cases[] = {
      {exp, kInf, kInf},       {exp, -kInf, 0.0f},         {exp, 0.0f, 1.0f},       {exp, -0.0f, 1.0f},      {exp, 88.73f, kInf},
      {exp, -104.0f, 0.0f},    {exp, -103.9f, kLeast},     {exp2, kInf, kInf},      {exp2, -kInf, 0.0f},     {exp2, 127.0f, 0x1p127f},
      {exp2, 128.0f, kInf},    {exp2, -126.0f, 0x1p-126f}, {exp2, -149.0f, kLeast}, {exp2, -150.0f, 0.0f},   {exp2, -140.0f, 0x1p-140f},
      {log, 0.0f, -kInf},      {log, -0.0f, -kInf},        {log, kInf, kInf},       {log, 1.0f, 0.0f},       {log2, 0.0f, -kInf},
      {log2, -0.0f, -kInf},    {log2, kInf, kInf},         {log2, 1.0f, 0.0f},      {log2, kLeast, -149.0f}, {log2, 0x1p127f, 127.0f},
      {tanh, 0.0f, 0.0f},      {tanh, -0.0f, -0.0f},       {tanh, kInf, 1.0f},      {tanh, -kInf, -1.0f},    {tanh, -kLeast, -kLeast},
      {sigmoid, kInf, 1.0f},   {sigmoid, -kInf, 0.0f},     {sigmoid, 0.0f, 0.5f},   {sigmoid, -0.0f, 0.5f},  {rsqrt, 0.0f, kInf},
      {rsqrt, -0.0f, -kInf},   {rsqrt, kInf, 0.0f},        {rsqrt, 4.0f, 0.5f},     {erf, -0.0f, -0.0f},     {erf, 0.0f, 0.0f},
      {erf, kInf, 1.0f},       {erf, -kInf, -1.0f},        {erf, kLeast, kLeast},   {sin, 0.0f, 0.0f},       {sin, -0.0f, -0.0f},
      {sin, -kLeast, -kLeast}, {cos, 0.0f, 1.0f},          {cos, -0.0f, 1.0f},      {tan, 0.0f, 0.0f},       {tan, -0.0f, -0.0f},
      {tan, kLeast, kLeast}};
  for (const Case& c : cases) EXPECT_EQ(to_bits(evaluate(c.function, {c.x})[0]), to_bits(c.want)) << int(c.function) << "(" << c.x << ")";
  for (Function f : {exp, exp2, log, log2, tanh, sigmoid, rsqrt, erf, sin, cos, tan}) {
    EXPECT_TRUE(std::isnan(evaluate(f, {kNan})[0])) << int(f);
    EXPECT_TRUE(std::isnan(evaluate(f, {-kNan})[0])) << int(f);
  }
  for (const auto& [f, x] : {std::pair{log, -1.0f},
                             {log, -kInf},
                             {log, -kLeast},
                             {log2, -1.0f},
                             {log2, -kLeast},
                             {rsqrt, -1.0f},
                             {sin, kInf},
                             {sin, -kInf},
                             {cos, kInf},
                             {cos, -kInf},
                             {tan, kInf},
                             {tan, -kInf}})
    EXPECT_TRUE(std::isnan(evaluate(f, {x})[0])) << int(f) << "(" << x << ")";
}

// Every combination of the values for which C defines special results.
TEST(VectorMath, Atan2SpecialValues) {
  Evaluator evaluate;
  const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kLeast, -kLeast, kMost, -kMost, kNan};
  for (float y : values)
    for (float x : values) {
      const float got = evaluate(Function::atan2, {x}, {y})[0], want = float(std::atan2(double(y), double(x)));
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << "atan2(" << y << ", " << x << ") = " << got;
      else
        EXPECT_EQ(to_bits(got), to_bits(want)) << "atan2(" << y << ", " << x << ") = " << got << ", not " << want;
    }
}

// A float gets the same bits alone and in a vector, also if its neighbours need the long range reduction.
TEST(VectorMath, LanesAndScalarsAgree) {
  using enum Function;
  Evaluator evaluate;
  std::vector<float> x, y, scalar;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4000037) x.push_back(from_bits(uint32_t(bits)));
  for (float v : x) y.push_back(1.0f - v);
  scalar.resize(x.size());
  for (Function f : {exp, exp2, log, log2, tanh, sigmoid, rsqrt, erf, sin, cos, tan, atan2}) {
    const std::vector<float>& got = evaluate(f, x, y);
    HWY_DYNAMIC_DISPATCH(evaluate_scalar)(f, int64_t(x.size()), x.data(), y.data(), scalar.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(to_bits(got[i]), to_bits(scalar[i])) << int(f) << "(" << x[i] << ")";
  }
}

}  // namespace
}  // namespace weft::cpu

#endif  // HWY_ONCE
