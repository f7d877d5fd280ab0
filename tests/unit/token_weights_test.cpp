// The sampler's passes over rows of logits (weft/tile/cpu/token_weights.h) against plain code, and the ids that the sampler draws against a
// sampler made of that code: equal to the bit. tests/CMakeLists.txt runs it for AVX2, too.
#include "weft/tile/cpu/token_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/backends/open.h"
#include "weft/base/dtype.h"
#include "weft/base/philox.h"
#include "weft/generate/sampler.h"

namespace weft {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Opening it chooses the instruction set (WEFT_ISA).
const auto* const kChosen = ::testing::AddGlobalTestEnvironment([] {
  struct Choice : ::testing::Environment {
    void SetUp() override { open_device("cpu"); }
  };
  return new Choice;
}());

// e^x for x <= 0, one operation after the other.
double exp_of(double x) {
  if (!(x > -708)) x = -708;
  const double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, n = shifted - 0x1.8p52;
  const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double factorials[14] = {1}, e = 0;
  for (int i = 1; i < 14; ++i) factorials[i] = factorials[i - 1] * i;
  for (int i = 13; i >= 0; --i) e = 1 / factorials[i] + e * r;
  return std::ldexp(e, int(n));
}

struct Token {
  uint64_t weight;
  int32_t id;
};

// The definition in sampler.h, with a sort of everything: the tokens that may be drawn, in the order of ids.
std::vector<Token> kept_tokens(std::vector<float> l, const SamplingOptions& o, const std::vector<int32_t>& history) {
  const std::vector<float> before = l;
  for (int32_t t : history)
    l[size_t(t)] =
        before[size_t(t)] < 0 ? before[size_t(t)] * float(o.repetition_penalty) : before[size_t(t)] / float(o.repetition_penalty);
  std::vector<float> sorted = l;
  std::sort(sorted.rbegin(), sorted.rend());
  const float least = o.top_k > 0 && size_t(o.top_k) < l.size() ? sorted[size_t(o.top_k - 1)] : -kInf;
  const double one = std::ldexp(1, 62 - int(std::bit_width(l.size())));
  std::vector<Token> tokens;
  for (size_t i = 0; i < l.size(); ++i)
    if (l[i] >= least && l[i] > -kInf)
      tokens.push_back({uint64_t(one * exp_of((double(l[i]) - double(sorted[0])) / o.temperature)), int32_t(i)});
  if (o.top_p < 1) {
    uint64_t all = 0, sum = 0;
    for (const Token& t : tokens) all += t.weight;
    const uint64_t wanted = std::clamp<uint64_t>(uint64_t(std::ceil(o.top_p * double(all))), 1, all);
    std::ranges::sort(tokens, [](const Token& a, const Token& b) { return a.weight != b.weight ? a.weight > b.weight : a.id < b.id; });
    size_t kept = 0;
    while (sum < wanted) sum += tokens[kept++].weight;
    tokens.resize(kept);
    std::ranges::sort(tokens, {}, &Token::id);
  }
  const auto min_p = uint64_t(o.min_p * one);
  std::erase_if(tokens, [=](const Token& t) { return t.weight < min_p; });
  return tokens;
}

int32_t plain_draw(const std::vector<Token>& tokens, uint64_t seed, DrawPoint point) {
  uint64_t all = 0, sum = 0;
  for (const Token& t : tokens) all += t.weight;
  const PhiloxBlock bits = philox({point.position, point.occurrence, uint32_t(point.prompt), uint32_t(point.prompt >> 32)},
                                  {uint32_t(seed), uint32_t(seed >> 32)});
  const double unit = double((uint64_t(bits[0]) << 32 | bits[1]) >> 11) * 0x1p-53;
  const uint64_t target = std::min(all - 1, uint64_t(unit * double(all)));
  for (const Token& t : tokens)
    if ((sum += t.weight) > target) return t.id;
  return -1;
}

// Rows of n logits: wide and narrow, with and without ties, with -inf among them, with magnitudes at the ends of floats.
std::vector<std::vector<float>> rows_of(size_t n, uint64_t seed) {
  PhiloxStream values(seed);
  std::vector<std::vector<float>> rows;
  const auto add = [&](auto&& value) {
    auto& row = rows.emplace_back(n);
    for (float& l : row) l = value();
  };
  for (double deviation : {0.01, 1.0, 3.0, 12.0}) add([&] { return float(deviation * values.normal()); });
  add([&] { return std::round(float(4 * values.normal())) / 2; });
  add([&] { return float(bf16(float(3 * values.normal()))); });
  add([&] { return 2.5f; });
  add([&] { return values.normal() < 0 ? -0.0f : 0.0f; });
  add([&] { return values.normal() < 1 ? -kInf : float(values.normal()); });
  add([&] { return float(1e38 * values.normal() / 4); });
  add([&] { return float(1e-42 * values.normal()); });
  for (auto& row : rows) row[size_t(values.next() % n)] = std::max(row[0], 1.0f);  // at least one is finite
  rows.push_back(rows[2]);
  std::ranges::sort(rows.back());
  return rows;
}

const std::vector<size_t> kSizes = {1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 100, 1000, 1024, 1025, 2049, 6007};

TEST(TokenWeights, LargestLogit) {
  for (size_t n : kSizes)
    for (std::vector<float> row : rows_of(n, 1 + n)) {
      EXPECT_EQ(cpu::largest_logit(row.data(), int64_t(n)), std::ranges::max_element(row) - row.begin()) << n;
      for (float bad : {float(NAN), -float(NAN), kInf})
        for (size_t at : {size_t(0), n / 2, n - 1}) {
          std::vector<float> with_bad = row;
          with_bad[at] = bad;
          EXPECT_EQ(cpu::largest_logit(with_bad.data(), int64_t(n)), -1) << n << " with " << bad << " at " << at;
        }
      EXPECT_EQ(cpu::largest_logit(std::vector<float>(n, -kInf).data(), int64_t(n)), 0);
    }
}

TEST(TokenWeights, LogitsAbove) {
  for (size_t n : kSizes)
    for (const std::vector<float>& row : rows_of(n, 2 + n))
      for (float least : {-kInf, row[n / 2], row[n - 1], 1.0f}) {
        std::vector<float> expected, copied(n + cpu::kTokenSlack);
        std::ranges::copy_if(row, std::back_inserter(expected), [=](float l) { return l > least; });
        copied.resize(size_t(cpu::copy_logits_above(least, row.data(), int64_t(n), copied.data())));
        EXPECT_EQ(copied, expected) << n;
      }
}

TEST(TokenWeights, WeightsAreThoseOfTheDefinition) {
  for (size_t n : kSizes)
    for (const std::vector<float>& row : rows_of(n, 3 + n))
      for (double temperature : {1e-300, 0.05, 0.8, 1.0, 7.0, 1e30, 1e308}) {
        const float largest = *std::ranges::max_element(row);
        for (float least : {std::numeric_limits<float>::lowest(), row[n / 3]}) {
          if (least == -kInf) continue;
          const cpu::TokenWeights of{largest, temperature, least, 62 - int(std::bit_width(n))};
          uint64_t sum = 0;
          std::vector<uint64_t> all, expected, weights(n + cpu::kTokenSlack);
          std::vector<int64_t> expected_ids, ids(n + cpu::kTokenSlack);
          for (float l : row) {
            all.push_back(l >= least ? uint64_t(std::ldexp(exp_of((double(l) - double(largest)) / temperature), of.bits)) : 0);
            sum += all.back();
          }
          EXPECT_EQ(cpu::sum_of_weights(of, row.data(), int64_t(n)), sum) << n << " at temperature " << temperature;
          const uint64_t from = std::max<uint64_t>(1, all[n / 2]);
          for (size_t i = 0; i < n; ++i)
            if (all[i] >= from) expected.push_back(all[i]), expected_ids.push_back(int64_t(i) + 5);
          const cpu::Weighed weighed = cpu::write_weights(of, row.data(), int64_t(n), 5, from, ids.data(), weights.data());
          ids.resize(size_t(weighed.count)), weights.resize(size_t(weighed.count));
          EXPECT_EQ(weighed.sum, sum) << n << " at temperature " << temperature;
          EXPECT_EQ(weights, expected) << n << " at temperature " << temperature;
          EXPECT_EQ(ids, expected_ids) << n << " at temperature " << temperature;
        }
      }
}

// Numbers on both sides of 2^32 and 2^53, where a conversion from float64 could go wrong.
TEST(TokenWeights, WeightsOfEveryMagnitude) {
  PhiloxStream values(4);
  std::vector<float> row(4096);
  for (size_t i = 1; i < row.size(); ++i) row[i] = -43 * float(i) / float(row.size()) + float(values.normal()) / 1000;
  row[0] = *std::ranges::max_element(row);
  for (int bits = 1; bits <= 61; ++bits) {
    uint64_t sum = 0;
    for (float l : row) sum += uint64_t(std::ldexp(exp_of((double(l) - double(row[0])) / 1.1), bits));
    EXPECT_EQ(cpu::sum_of_weights({row[0], 1.1, std::numeric_limits<float>::lowest(), bits}, row.data(), int64_t(row.size())), sum) << bits;
  }
}

TEST(TokenWeights, SelectionOfWeights) {
  PhiloxStream values(5);
  for (size_t n : kSizes) {
    std::vector<uint64_t> weights(n);
    for (uint64_t& w : weights) w = uint64_t(values.next() % 9) << values.next() % 59;
    for (uint64_t pivot : {uint64_t(0), weights[0], weights[n / 2], uint64_t(1) << 61}) {
      uint64_t above = 0;
      for (uint64_t w : weights) above += w > pivot ? w : 0;
      const auto [sum, equal] = cpu::weights_around(pivot, weights.data(), int64_t(n));
      EXPECT_EQ(sum, above);
      EXPECT_EQ(equal, uint64_t(std::ranges::count(weights, pivot)));

      std::vector<uint64_t> expected, copied = weights;
      const uint64_t end = std::max(pivot, weights[n - 1]);
      std::ranges::copy_if(weights, std::back_inserter(expected), [=](uint64_t w) { return w >= pivot && w < end; });
      copied.resize(n + cpu::kTokenSlack);
      copied.resize(size_t(cpu::copy_weights(pivot, end, copied.data(), int64_t(n), copied.data())));
      EXPECT_EQ(copied, expected);
    }
  }
}

void expect_draws(const std::vector<float>& row, const SamplingOptions& options, const std::vector<int32_t>& history) {
  const std::vector<Token> tokens = kept_tokens(row, options, history);
  Sampler sampler(options);
  for (uint32_t position = 0; position < 12; ++position)
    ASSERT_EQ(sampler.next(row, history, {.prompt = 8, .position = position}),
              plain_draw(tokens, options.seed, {.prompt = 8, .position = position}))
        << row.size() << " logits, temperature " << options.temperature << ", top-k " << options.top_k << ", top-p " << options.top_p
        << ", min-p " << options.min_p << ", penalty " << options.repetition_penalty << ", position " << position;
}

TEST(TokenWeights, DrawsAreThoseOfTheDefinition) {
  const double almost_one = std::nextafter(1.0, 0.0);
  for (size_t n : kSizes) {
    const auto size = int64_t(n);
    for (const std::vector<float>& row : rows_of(n, 6 + n))
      for (double temperature : {1e-300, 0.1, 0.8, 4.0, 1e30})
        for (const SamplingOptions& options : {SamplingOptions{},
                                               {.top_p = 0},
                                               {.top_p = 0.4},
                                               {.top_p = 0.95},
                                               {.top_p = almost_one},
                                               {.top_k = 1},
                                               {.top_k = 7, .top_p = 0.9},
                                               {.top_k = size / 2 + 1},
                                               {.top_k = size - 1, .top_p = 0.99999, .min_p = 1e-9},
                                               {.min_p = 1e-19},
                                               {.min_p = 0.05},
                                               {.min_p = 1},
                                               {.top_p = 0.95, .min_p = 0.1},
                                               {.top_k = 50, .top_p = 0.95, .min_p = 0.01, .repetition_penalty = 1.3}}) {
          SamplingOptions o = options;
          o.temperature = temperature;
          o.seed = n;
          expect_draws(row, o, {0, int32_t(n / 2), 0});
          if (HasFatalFailure()) return;
        }
  }
}

// A vocabulary of the size of Llama's, where weights have the fewest bits.
TEST(TokenWeights, DrawsOfAWholeVocabulary) {
  PhiloxStream values(7);
  for (double deviation : {0.3, 2.5}) {
    std::vector<float> row(128256);
    for (float& l : row) l = float(deviation * values.normal());
    for (const SamplingOptions& o : {SamplingOptions{.temperature = 0.8, .top_p = 0.95},
                                     {.temperature = 1},
                                     {.temperature = 0.8, .top_k = 50},
                                     {.temperature = 1, .top_k = 60000},
                                     {.temperature = 1, .min_p = 0.05},
                                     {.temperature = 0.8, .top_p = 0.95, .repetition_penalty = 1.1}})
      expect_draws(row, o, {5, 77});
  }
}

}  // namespace
}  // namespace weft
