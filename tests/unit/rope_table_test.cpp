// The frequencies of rope_table against formulas written here, and a few values computed by hand.
#include "weft/ops/rope/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/backends/open.h"

namespace weft {
namespace {

const RopeScaling kLlama31{
    .kind = RopeScaling::Kind::llama3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};

TEST(RopeTable, FrequenciesAreAGeometricSeries) {
  const std::vector<double> f = rope_frequencies(8, 10000);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_DOUBLE_EQ(f[0], 1);
  EXPECT_NEAR(f[1], 0.1, 1e-16);
  EXPECT_NEAR(f[2], 0.01, 1e-17);
  EXPECT_NEAR(f[3], 0.001, 1e-18);
}

// theta^(2i/R) = 4096: the wavelength 2 pi 4096 = 25736 is above 8192 / 1, so the frequency is divided by 8.
// theta^(2i/R) = 64: 402 is below 8192 / 4 = 2048, unchanged. At 512 it is 3217, between the two:
//   smooth = (8192 / 3216.9909 - 1) / 3 = 0.51549303, f = (0.48450697 / 8 + 0.51549303) / 512 = 0.00112511016.
TEST(RopeTable, Llama3WorkedByHand) {
  const std::vector<double> f = rope_frequencies(8, 0x1p24, kLlama31);  // f_i = 2^(-6 i)
  EXPECT_DOUBLE_EQ(f[0], 1);
  EXPECT_DOUBLE_EQ(f[1], 1.0 / 64);
  EXPECT_NEAR(f[2], 1.0 / 4096 / 8, 1e-18);
  EXPECT_NEAR(rope_frequencies(8, 0x1p36, kLlama31)[1], 0.00112511016, 1e-11);  // f_1 = 2^-9
}

// The same rule in another form: a blend whose weight is clamped to [0, 1].
TEST(RopeTable, Llama3IsAClampedBlend) {
  const std::vector<double> plain = rope_frequencies(128, 500000), scaled = rope_frequencies(128, 500000, kLlama31);
  for (size_t i = 0; i < plain.size(); ++i) {
    const double turns = 8192 * plain[i] / (2 * M_PI);  // turns of the pair within the original context
    const double weight = std::min(1.0, std::max(0.0, (turns - 1) / (4 - 1)));
    EXPECT_NEAR(scaled[i], plain[i] * weight + plain[i] / 8 * (1 - weight), 1e-15 * plain[i]) << i;
  }
}

void expect_frequencies(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-7 * expected[i]) << i;  // transformers computes them in f32
}

// Values of transformers' functions for R = 8, theta = 10000.
TEST(RopeTable, KindsOfScaling) {
  expect_frequencies(rope_frequencies(8, 10000, {.kind = RopeScaling::Kind::linear, .factor = 3}), {1.0 / 3, 0.1 / 3, 0.01 / 3, 0.001 / 3});
  const RopeScaling dynamic{.kind = RopeScaling::Kind::dynamic, .factor = 3, .original_context = 32};
  expect_frequencies(rope_frequencies(8, 10000, dynamic, 32), {1, 0.1, 0.01, 0.001});
  expect_frequencies(rope_frequencies(8, 10000, dynamic, 80), {1, 0.056651637, 0.00320940767, 0.000181818177});
  RopeScaling yarn{.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = 64, .beta_fast = 4, .beta_slow = 0.5};
  expect_frequencies(rope_frequencies(8, 10000, yarn), {1, 0.0625, 0.0025, 0.00025});
  yarn.truncate = false;
  expect_frequencies(rope_frequencies(8, 10000, yarn), {1, 0.0506643951, 0.0025, 0.00025});
}

TEST(RopeTable, LongropeIsChosenByTheDeclaredContext) {
  const RopeScaling s{.kind = RopeScaling::Kind::longrope, .original_context = 16, .short_factors = {1, 2}, .long_factors = {4, 5}};
  const std::vector<double> plain = rope_frequencies(4, 10000);
  expect_frequencies(rope_frequencies(4, 10000, s, 16), {plain[0], plain[1] / 2});
  expect_frequencies(rope_frequencies(4, 10000, s, 17), {plain[0] / 4, plain[1] / 5});
}

TEST(RopeTable, FactorsOfCosAndSin) {
  const auto device = open_device("cpu", {});
  RopeScaling s{.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = 2, .attention_factor = 1.5};
  const std::vector<double> f = rope_frequencies(4, 10000, s);
  const std::vector<float> cos = rope_table(*device, 5, 4, 10000, RopeTableOptions{.scaling = s, .growth = 0.3}).cos.to_host<float>();
  for (int p = 0; p < 5; ++p)  // growth by floor(p / 2)
    for (int i = 0; i < 2; ++i)
      EXPECT_FLOAT_EQ(cos[size_t(2 * p + i)], float(1.5 * (1 + 0.3 * std::log(1.0 + p / 2)) * std::cos(p * f[size_t(i)])));
}

TEST(RopeTable, HoldsCosAndSinRoundedOnce) {
  const auto device = open_device("cpu", {});
  const RopeTable table = rope_table(*device, 5, 6, 100);
  EXPECT_EQ(table.cos.shape(), (Shape{5, 3}));
  const std::vector<float> cos = table.cos.to_host<float>(), sin = table.sin.to_host<float>();
  for (int p = 0; p < 5; ++p)
    for (int i = 0; i < 3; ++i) {
      const double angle = p * std::pow(100.0, -2.0 * i / 6);
      EXPECT_FLOAT_EQ(cos[size_t(p * 3 + i)], float(std::cos(angle)));
      EXPECT_FLOAT_EQ(sin[size_t(p * 3 + i)], float(std::sin(angle)));
    }
}

// Positions that do not fit in 12 or 16 bits. Angles of 70000 have an error of 1e-11 in float64, far below a float's rounding.
TEST(RopeTable, LargePositions) {
  const auto device = open_device("cpu", {});
  const RopeTable table = rope_table(*device, 70001, 4, 10000);
  const std::vector<float> cos = table.cos.to_host<float>(), sin = table.sin.to_host<float>();
  for (const int64_t p : {4095, 4096, 5000, 65535, 65536, 70000})
    for (int i = 0; i < 2; ++i) {
      const double angle = double(p) * (i == 0 ? 1 : 0.01);
      EXPECT_FLOAT_EQ(cos[size_t(2 * p + i)], float(std::cos(angle))) << p;
      EXPECT_FLOAT_EQ(sin[size_t(2 * p + i)], float(std::sin(angle))) << p;
    }
}

TEST(RopeTable, RejectsInvalidArguments) {
  const auto device = open_device("cpu", {});
  EXPECT_THROW(rope_table(*device, 4, 7, 10000), Error);
  EXPECT_THROW(rope_table(*device, -1, 8, 10000), Error);
  EXPECT_THROW(rope_table(*device, 4, 8, 0), Error);
  RopeScaling scaling = kLlama31;
  scaling.high_freq_factor = 1;
  EXPECT_THROW(rope_table(*device, 4, 8, 10000, scaling), Error);
  scaling = kLlama31;
  scaling.original_context = 0;
  EXPECT_THROW(rope_table(*device, 4, 8, 10000, scaling), Error);
  scaling = {.kind = RopeScaling::Kind::longrope, .original_context = 16, .short_factors = {1, 2}, .long_factors = {4}};
  EXPECT_THROW(rope_table(*device, 4, 4, 10000, scaling), Error);
  const RopeScaling dynamic{.kind = RopeScaling::Kind::dynamic, .factor = 2, .original_context = 4};
  EXPECT_THROW(rope_table(*device, 4, 2, 10000, dynamic), Error);
  EXPECT_THROW(rope_frequencies(8, 1e308, dynamic, 8), Error);  // a base that no double holds
  EXPECT_THROW(rope_frequencies(8, 10000, {.kind = RopeScaling::Kind::dynamic, .factor = 1e300, .original_context = 4}, 4),
               Error);  // one of 0
}

}  // namespace
}  // namespace weft
