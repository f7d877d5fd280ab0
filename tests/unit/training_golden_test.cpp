// Twelve steps of AdamW against PyTorch: losses and gradient norms of three models.
#include <gtest/gtest.h>

#include "tests/unit/golden_model.h"
#include "tests/unit/test_device.h"
#include "weft/models/config_json.h"
#include "weft/train/optimizers.h"
#include "weft/train/step.h"

namespace weft {
namespace {

class FileWeights : public Weights {
 public:
  FileWeights(Device& device, const std::string& path) : Weights(device, DType::f32, true), file_(path) {}

 protected:
  Tensor fetch(const std::string& name, const Shape&, const Init&) override { return golden::tensor(device(), file_.at(name)); }
  SafeTensors file_;
};

class TrainingGolden : public testing::TestWithParam<const char*> {};

TEST_P(TrainingGolden, twelve_steps) {
  const std::string folder = golden::folder(GetParam());
  const auto device = open_device(test_device());
  const SafeTensors expected(folder + "/expected.safetensors");
  FileWeights weights(*device, folder + "/model.safetensors");
  const auto model = make_model(read_model_config(folder), weights);
  AdamW optimizer(model->parameters(), {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .decay_all = true});
  TrainingStep step(*model, optimizer, {.clip = 1.0});

  const auto ids = golden::values<int32_t>(expected.at("train_ids"));
  const int64_t rows = expected.at("train_ids").shape[0], T = expected.at("train_ids").shape[1] - 1;
  std::vector<TokenBatch> sequences;
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = ids.begin() + r * (T + 1);
    sequences.push_back({1, T, {first, first + T}, {first + 1, first + T + 1}});
  }
  const auto losses = golden::values<float>(expected.at("losses")), norms = golden::values<float>(expected.at("grad_norms"));
  ASSERT_EQ(losses.size(), 12u);
  for (size_t i = 0; i < losses.size(); ++i) {
    const StepResult result = step.gradients(sequences);
    EXPECT_NEAR(result.loss, losses[i], 1e-4 * losses[i]) << "step " << i + 1;
    EXPECT_NEAR(result.gradient_norm, norms[i], 1e-4 * norms[i]) << "step " << i + 1;
    step.apply(1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(models, TrainingGolden, testing::Values("llama", "qwen3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft
