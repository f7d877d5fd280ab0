// The log-probabilities of a prompt have the same bits whether they are computed in chunks or in one pass.
#include "weft/serve/prompt_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"
#include "weft/generate/score.h"
#include "weft/tensor/node.h"

namespace weft::serve {
namespace {

std::unique_ptr<Model> small_model(Device& device, DType dtype) {
  ModelConfig c = preset("llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = 1200;
  c.initializer_range = 0.3;
  return make_model(c, device, 3, {.dtype = dtype});
}

PromptScores all_of(const Model& model, const std::vector<int32_t>& ids, int64_t top, int& steps) {
  PromptScorer scorer(model, model.make_pool(pages_for(1200)), std::make_shared<std::vector<int32_t>>(ids), top, "");
  for (steps = 0; !scorer.done(); ++steps) scorer.step();
  return scorer.take();
}

TEST(PromptScores, ChunksHaveTheBitsOfOnePass) {
  const auto device = open_device(test_device(), {.threads = 2});
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto model = small_model(*device, dtype);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 1200; ++i) ids.push_back(i * i % 211);
    const std::vector<float> expected = score(*model, {{.prompt = {ids[0]}, .completion = {ids.begin() + 1, ids.end()}}}, {}).front();
    int steps = 0;
    const PromptScores scores = all_of(*model, ids, 3, steps);
    EXPECT_EQ(steps, 3);
    ASSERT_EQ(scores.size(), expected.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_EQ(scores[i].value, expected[i]) << dtype << ", token " << i + 1;
      ASSERT_EQ(scores[i].id, ids[i + 1]);
      ASSERT_EQ(scores[i].top.size(), 3u);
      ASSERT_GE(scores[i].top[0].value, scores[i].value);
    }
  }
}

TEST(PromptScores, LogitsThatAreNoNumbersAreAnError) {
  const auto device = open_device(test_device(), {.threads = 2});
  const auto model = small_model(*device, DType::f32);
  for (const Parameter& p : model->parameters()) {
    if (!p.name.ends_with("embed_tokens.weight")) continue;
    std::vector<float> values = p.tensor.to_host<float>();
    for (size_t i = 0; i < 48; ++i) values[100 * 48 + i] = NAN;
    const NoGrad no_grad;
    p.tensor.write(values);
  }
  int steps = 0;
  EXPECT_THROW(all_of(*model, {5, 100, 6}, 2, steps), Error);
}

TEST(PromptScores, OneTokenHasNone) {
  const auto device = open_device(test_device(), {.threads = 2});
  const auto model = small_model(*device, DType::f32);
  int steps = 0;
  EXPECT_TRUE(all_of(*model, {5}, 0, steps).empty());
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(all_of(*model, {5, 6}, 0, steps).size(), 1u);
  EXPECT_THROW(PromptScorer(*model, model->make_pool(1), std::make_shared<std::vector<int32_t>>(2, 5), 0, "nobody"), Error);
}

}  // namespace
}  // namespace weft::serve
