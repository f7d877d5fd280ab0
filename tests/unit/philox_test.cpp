#include "weft/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/backends/open.h"
#include "weft/ops/uniform/uniform.h"

namespace weft {
namespace {

// Known answers of Philox4x32-10 (the authors' Random123 library, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, UnitFloatStaysBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_EQ(unit_float(255), 0.0f);
  EXPECT_EQ(unit_float(256), 0x1p-24f);
  EXPECT_EQ(unit_float(0xffffffffu), 1.0f - 0x1p-24f);
}

TEST(Philox, StateAdvancesToOtherNumbers) {
  const auto device = open_device("cpu", {});
  const Tensor state = random_state(*device, 0x123456789abcdef0u);
  EXPECT_EQ(state.to_host<uint32_t>(), (std::vector<uint32_t>{0x9abcdef0u, 0x12345678u, 0, 0}));
  const auto first = uniform(*device, {1000}, state, 5).to_host<float>();
  EXPECT_EQ(uniform(*device, {1000}, state, 5).to_host<float>(), first);
  EXPECT_NE(uniform(*device, {1000}, state, 6).to_host<float>(), first);
  advance_random_state(state);
  EXPECT_NE(uniform(*device, {1000}, state, 5).to_host<float>(), first);
}

// Mean and variance of n draws are within six standard errors of 0 and stddev^2.
TEST(Philox, NormalValuesHaveTheirMoments) {
  constexpr int64_t n = 100000;
  constexpr double d = 0.02;
  double sum = 0, squares = 0;
  for (float value : normal_values(n, 7, d)) {
    sum += value;
    squares += double(value) * value;
  }
  EXPECT_LT(std::abs(sum / n), 6 * d / std::sqrt(double(n)));
  EXPECT_LT(std::abs(squares / n - d * d), 6 * d * d * std::sqrt(2.0 / n));
}

}  // namespace
}  // namespace weft
