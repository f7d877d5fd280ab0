// The sampler against a plain implementation of transformers' processors: which tokens remain, and how often each is drawn.
#include "weft/generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/observed.h"
#include "weft/base/error.h"
#include "weft/base/philox.h"

namespace weft {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Probabilities by the definitions, with sorts over everything: penalty, temperature, top-k, top-p (ascending cumulative
// sum <= 1 - p is removed), min-p.
std::vector<double> probabilities(std::vector<float> l, const std::vector<int32_t>& history, const SamplingOptions& o) {
  const std::vector<float> before = l;
  for (int32_t t : history) l[t] = before[t] < 0 ? before[t] * float(o.repetition_penalty) : before[t] / float(o.repetition_penalty);
  std::vector<double> s(l.begin(), l.end());
  for (double& x : s) x /= o.temperature;
  const auto softmax = [](std::vector<double> x) {
    const double most = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (double& v : x) sum += v = std::exp(v - most);
    for (double& v : x) v /= sum;
    return x;
  };
  if (o.top_k > 0 && o.top_k < int64_t(s.size())) {
    std::vector<double> sorted = s;
    std::sort(sorted.rbegin(), sorted.rend());
    const double least = sorted[size_t(o.top_k - 1)];
    for (double& x : s)
      if (x < least) x = -HUGE_VAL;
  }
  if (o.top_p < 1) {
    std::vector<size_t> order(s.size());
    std::iota(order.rbegin(), order.rend(), size_t(0));  // of equals the lower id comes last and is kept
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s[a] < s[b]; });
    const std::vector<double> p = softmax(s);
    double sum = 0;
    for (size_t i = 0; i + 1 < order.size(); ++i)
      if ((sum += p[order[i]]) <= 1 - o.top_p + 1e-12) s[order[i]] = -HUGE_VAL;
  }
  std::vector<double> p = softmax(s);
  const double least = o.min_p * *std::max_element(p.begin(), p.end());
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] < least) s[i] = -HUGE_VAL;
  return softmax(s);
}

// Draws often; every token must occur as often as expected, within five standard deviations (plus three, for rare tokens), and never if it
// was removed.
void expect_distribution(const std::vector<float>& logits, const SamplingOptions& options, const std::vector<int32_t>& history = {}) {
  constexpr int kDraws = 20000;
  const std::vector<double> p = probabilities(logits, history, options);
  std::vector<int> count(logits.size());
  Sampler sampler(options);
  for (int i = 0; i < kDraws; ++i) ++count[size_t(sampler.next(logits, history, {.prompt = 3, .position = uint32_t(i)}))];
  for (size_t t = 0; t < p.size(); ++t)
    EXPECT_LE(std::abs(count[t] - kDraws * p[t]), 5 * std::sqrt(kDraws * p[t] * (1 - p[t])) + (p[t] > 0 ? 3 : 0))
        << "token " << t << " of probability " << p[t];
}

const std::vector<float> kLogits = {1.0f, 2.5f, -0.5f, 2.0f, 0.25f, -3.0f, 2.0f, 1.5f};

TEST(Sampler, TemperatureScalesTheLogits) {
  for (double t : {0.3, 1.0, 4.0}) expect_distribution(kLogits, {.temperature = t, .seed = 7});
}

TEST(Sampler, TopKKeepsTiesOfTheKth) {
  expect_distribution(kLogits, {.temperature = 1, .top_k = 2, .seed = 1});  // 2.5 and both 2.0
  expect_distribution(kLogits, {.temperature = 1, .top_k = 4, .seed = 1});
  expect_distribution(kLogits, {.temperature = 1, .top_k = 100, .seed = 1});
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  for (double p : {0.0, 0.3, 0.5, 0.6, 0.9, 0.999}) expect_distribution(kLogits, {.temperature = 1, .top_p = p, .seed = 2});
  expect_distribution({1, 1, 1, 1}, {.temperature = 1, .top_p = 0.5, .seed = 2});  // exactly half: ids 0 and 1
}

TEST(Sampler, MinPIsRelativeToTheMostLikely) {
  for (double p : {0.05, 0.5, 1.0}) expect_distribution(kLogits, {.temperature = 1, .min_p = p, .seed = 3});
}

TEST(Sampler, PenaltyAppliesOncePerToken) {
  expect_distribution(kLogits, {.temperature = 1, .repetition_penalty = 1.7, .seed = 4}, {1, 1, 1, 2, 5});
  expect_distribution(kLogits, {.temperature = 1, .repetition_penalty = 0.5, .seed = 4}, {3, 2});
}

TEST(Sampler, OrderOfTheProcessors) {  // temperature before top-p, penalty first: other orders keep other tokens
  expect_distribution(kLogits, {.temperature = 0.7, .top_k = 5, .top_p = 0.8, .min_p = 0.2, .repetition_penalty = 1.3, .seed = 5}, {1, 3});
  expect_distribution(kLogits, {.temperature = 2.0, .top_k = 5, .top_p = 0.8, .min_p = 0.2, .repetition_penalty = 1.3, .seed = 5}, {1, 3});
}

TEST(Sampler, LargeVocabulary) {
  std::vector<float> logits(2000);
  PhiloxStream values(11);
  for (float& l : logits) l = float(6 * values.normal());
  for (const SamplingOptions& o : {SamplingOptions{.temperature = 1}, {.temperature = 1, .top_k = 40}, {.temperature = 2, .top_p = 0.9}})
    expect_distribution(logits, o);
}

// Logits in steps of a half: most are ties, and the set that reaches p ends among equals.
TEST(Sampler, TopPAmongTies) {
  std::vector<float> logits(700);
  PhiloxStream values(12);
  for (float& l : logits) l = std::round(float(4 * values.normal())) / 2;
  for (double p : {0.2, 0.5, 0.9, 0.99, 0.9999}) expect_distribution(logits, {.temperature = 1.3, .top_p = p, .seed = 6});
  expect_distribution(std::vector<float>(300, 2.0f), {.temperature = 1, .top_p = 0.25, .seed = 6});  // exactly 75 of 300
}

TEST(Sampler, TokensBelowTheLastBitOfAWeightAreNeverDrawn) {
  std::vector<float> logits(1000, -60);  // e^-60 is below 2^-52
  logits[3] = 0;
  for (uint32_t position = 0; position < 1000; ++position)
    EXPECT_EQ(Sampler({.temperature = 1, .top_p = 1}).next(logits, {}, {.position = position}), 3);
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  Sampler greedy({});
  EXPECT_EQ(greedy.next(kLogits, {}, {}), 1);
  EXPECT_EQ(greedy.next(std::vector<float>{0, 3, 3, 1}, {}, {}), 1);
  EXPECT_EQ(Sampler({.repetition_penalty = 2}).next(kLogits, std::vector<int32_t>{1, 1}, {}), 3);  // 2.5 becomes 1.25
  EXPECT_EQ(Sampler({.repetition_penalty = 2}).next(kLogits, std::vector<int32_t>{-1, 8, 1 << 30}, {}), 1);
  EXPECT_EQ(Sampler({.top_k = 3, .top_p = 0.1, .seed = 9}).next(kLogits, {}, {}), 1);
}

TEST(Sampler, SingleRemainingTokenIsChosen) {
  std::vector<float> logits(100, -kInf);
  logits[37] = -50;
  for (double t : {0.0, 1e-300, 1e-30, 1.0, 1e30})
    for (uint32_t position = 0; position < 20; ++position)
      EXPECT_EQ(Sampler({.temperature = t, .top_p = 0.9}).next(logits, {}, {.position = position}), 37);
  // Far apart, or a tiny temperature: no overflow.
  EXPECT_EQ(Sampler({.temperature = 1e-300}).next(std::vector<float>{-3e38f, 3e38f, 2.9e38f}, {}, {}), 1);
}

TEST(Sampler, DrawsDependOnSeedSequenceAndPositionOnly) {
  const SamplingOptions options{.temperature = 1, .seed = 42};
  Sampler one(options), other(options);
  const auto draws = [](Sampler& s, uint32_t sequence) {
    std::vector<int32_t> ids;
    for (uint32_t position = 0; position < 64; ++position) ids.push_back(s.next(kLogits, {}, {.prompt = sequence, .position = position}));
    return ids;
  };
  const auto first = draws(one, 0);
  EXPECT_NE(draws(one, 1), first);
  EXPECT_EQ(draws(other, 0), first);  // independent of other draws in between
  EXPECT_EQ(draws(one, 0), first);
  Sampler reseeded({.temperature = 1, .seed = 42 + (uint64_t(1) << 32)});
  EXPECT_NE(draws(reseeded, 0), first);
}

TEST(Sampler, BadLogitsAreNamed) {
  for (const SamplingOptions& o : {SamplingOptions{}, {.temperature = 1}, {.temperature = 1, .top_k = 2, .repetition_penalty = 2}}) {
    const auto says = [&](std::vector<float> logits) {
      return message_of([&] { Sampler(o).next(logits, std::vector<int32_t>{0}, {.position = 123}); });
    };
    EXPECT_EQ(says({1, 2, NAN, 3}), "sampler: the logit of token 2 at position 123 is nan");
    EXPECT_EQ(says({NAN, 2}), "sampler: the logit of token 0 at position 123 is nan");
    EXPECT_EQ(says({1, kInf}), "sampler: the logit of token 1 at position 123 is inf");
    EXPECT_EQ(says({-kInf, -kInf}), "sampler: every logit at position 123 is -inf");
    EXPECT_EQ(says({}), "sampler: there are no logits for position 123");
  }
}

TEST(Sampler, BadOptionsAreNamed) {
  const auto says = [](const SamplingOptions& o) { return message_of([&] { Sampler sampler(o); }); };
  EXPECT_EQ(says({.temperature = -1}), "sampler: temperature is -1, expected 0 (greedy) or more");
  EXPECT_EQ(says({.temperature = NAN}), "sampler: temperature is nan, expected 0 (greedy) or more");
  EXPECT_EQ(says({.top_k = -5}), "sampler: top_k is -5, expected 0 (all) or more");
  EXPECT_EQ(says({.top_p = 1.5}), "sampler: top_p is 1.5, expected 0 to 1");
  EXPECT_EQ(says({.min_p = -0.1}), "sampler: min_p is -0.1, expected 0 to 1");
  EXPECT_EQ(says({.repetition_penalty = 0}), "sampler: repetition_penalty is 0, expected more than 0 (1: none)");
}

}  // namespace
}  // namespace weft
