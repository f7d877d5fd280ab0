// Log-probabilities of a Generator and of score(): that they are probabilities, equal each other, and do not depend on the pass.
#include "weft/generate/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/generate/generator.h"

namespace weft {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Model> small_model() {
  ModelConfig c = preset("llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = 64;
  c.initializer_range = 0.3;  // so that logits differ
  return make_model(c, *open_device(test_device(), {.threads = 2}), 3);
}

const std::vector<Ids> kPrompts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11}, {1, 2, 3}};

TEST(LogProbabilities, AreThoseOfTheLogits) {
  const auto model = small_model();
  Generator generator(*model, {.max_tokens = 5, .log_probabilities = true, .top_log_probabilities = 211});
  for (const Completion& c : generator.run(kPrompts)) {
    ASSERT_EQ(c.log_probabilities.size(), c.ids.size());
    for (size_t i = 0; i < c.ids.size(); ++i) {
      const TokenLogProbability& token = c.log_probabilities[i];
      EXPECT_EQ(token.id, c.ids[i]);
      ASSERT_EQ(token.top.size(), 211u);
      EXPECT_EQ(token.top[0].id, token.id);  // greedy
      EXPECT_EQ(token.top[0].value, token.value);
      double total = 0;
      for (size_t k = 0; k < token.top.size(); ++k) {
        total += std::exp(double(token.top[k].value));
        EXPECT_LE(token.top[k].value, token.top[k > 0 ? k - 1 : 0].value);
      }
      EXPECT_NEAR(total, 1, 1e-5);
    }
  }
}

TEST(LogProbabilities, DoNotChangeWhatIsSampledAndIgnoreTheSampler) {
  const auto model = small_model();
  const SamplingOptions sampling{.temperature = 0.7, .top_k = 30, .repetition_penalty = 1.3, .seed = 4};
  Generator plain(*model, {.sampling = sampling, .max_tokens = 6});
  Generator recording(*model, {.sampling = sampling, .max_tokens = 6, .log_probabilities = true});
  const auto expected = plain.run(kPrompts), recorded = recording.run(kPrompts);
  std::vector<ScoredPair> pairs;
  for (size_t i = 0; i < kPrompts.size(); ++i) {
    EXPECT_EQ(recorded[i].ids, expected[i].ids);
    EXPECT_TRUE(expected[i].log_probabilities.empty());
    pairs.push_back({kPrompts[i], recorded[i].ids});
  }
  const auto scores = score(*model, pairs);
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t k = 0; k < scores[i].size(); ++k) EXPECT_EQ(scores[i][k], recorded[i].log_probabilities[k].value) << i << " " << k;
}

TEST(LogProbabilities, OfAKeptEngineAreRecordedToo) {
  const auto model = small_model();
  Generator generator(*model, {.max_tokens = 4, .log_probabilities = true});
  Engine kept(*model, {.sequences = 1, .keep = true});
  const Completion first = generator.run(kept, {1, 2, 3, 4, 5, 6});
  const Completion again = generator.run(kept, {1, 2, 3, 4, 5, 6});
  ASSERT_EQ(first.log_probabilities.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(first.log_probabilities[i].value, again.log_probabilities[i].value);
}

TEST(Score, DoesNotDependOnThePass) {
  const auto model = small_model();
  const std::vector<ScoredPair> pairs = {{{1, 2, 3}, {4, 5}}, {{9}, {8, 7, 6, 5}}, {{1}, {}}, {{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, {2}}};
  const auto expected = score(*model, pairs, {.batch = 1});
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(expected[0].size(), 2u);
  EXPECT_EQ(expected[2].size(), 0u);
  EXPECT_EQ(score(*model, pairs, {.batch = 4}), expected);
  EXPECT_EQ(score(*model, pairs, {.batch = 3, .pass_tokens = 12}), expected);
}

TEST(Score, NamesWhatIsWrong) {
  const auto model = small_model();
  const auto message = [&](ScoredPair pair) { return message_of([&] { score(*model, {{{1}, {2}}, std::move(pair)}); }); };
  EXPECT_NE(message({{}, {1}}).find("pair 1 is empty"), std::string::npos) << message({{}, {1}});
  EXPECT_NE(message({{1}, {211}}).find("pair 1 has token 211"), std::string::npos);
  EXPECT_NE(message({{1}, {-1}}).find("token -1"), std::string::npos);
  EXPECT_NE(message({Ids(40, 1), Ids(26, 1)}).find("context of 64"), std::string::npos);
  EXPECT_EQ(score(*model, {{Ids(40, 1), Ids(25, 1)}})[0].size(), 25u);
  EXPECT_NE(message_of([&] { score(*model, {}, {.batch = 0}); }).find("batch is 0"), std::string::npos);
  EXPECT_NE(message_of([&] { Generator(*model, {.top_log_probabilities = 3}); }).find("log_probabilities"), std::string::npos);
}

}  // namespace
}  // namespace weft
