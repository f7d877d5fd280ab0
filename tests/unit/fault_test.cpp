// Faults that a kernel finds in its data are raised before its results are read or applied, on every device.
#include <gtest/gtest.h>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/autograd/backward.h"
#include "weft/models/model.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/route/route.h"
#include "weft/tensor/node.h"
#include "weft/train/optimizers.h"
#include "weft/train/step.h"

namespace weft {
namespace {

constexpr int32_t kVocabulary = 61;

class Faults : public testing::Test {
 protected:
  Faults() {
    ModelConfig c = preset("llama-tiny");
    c.vocab_size = kVocabulary, c.layers = 1, c.max_positions = 32;
    model = make_model(c, *device, 3, {.dtype = DType::f32, .trainable = true});
    optimizer = std::make_unique<AdamW>(model->parameters(), AdamWOptions{.learning_rate = 0.1});
  }

  Tensor ids(const std::vector<int32_t>& values) const { return Tensor::from_host(*device, {1, int64_t(values.size())}, values); }
  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (const NamedTensor& p : model->parameters()) all.push_back(p.tensor.detach().to_host<float>());
    return all;
  }

  const std::shared_ptr<Device> device = open_device(test_device());
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
};

const std::string kFound = "id 99 at position 1 is out of range [0, 61)";

TEST_F(Faults, raised_by_a_download) {
  const NoGrad no_grad;
  const Tensor table = zeros(*device, {kVocabulary, 4}), other = zeros(*device, {3});
  const auto bad = [&] { return embedding(table, ids({0, 99})); };
  EXPECT_NE(message_of([&] { bad().to_host<float>(); }).find(kFound), std::string::npos);
  EXPECT_NE(message_of([&] { bad(), other.to_host<float>(); }).find(kFound), std::string::npos);  // whatever tensor is read
  EXPECT_EQ(embedding(table, ids({0, 60})).to_host<float>(), std::vector<float>(8, 0));           // and only once
}

// The gradient of a row with an expert that there is not is zero, on the CPU.
TEST_F(Faults, raised_by_the_experts_of_a_token) {
  const Tensor logits = Tensor::from_host(*device, {2, 3}, std::vector<float>{1, 2, 3, 3, 2, 1});
  const Tensor experts = Tensor::from_host(*device, {2, 2}, std::vector<int32_t>{0, 2, 1, 3});
  const Tensor dweights = Tensor::from_host(*device, {2, 2}, std::vector<float>{1, -1, 1, -1}), dlogits = full(*device, {2, 3}, 7);
  const std::string message = message_of([&] {
    route_backward(device->stream(), {logits.view(), experts.view(), dweights.view(), dlogits.mut_view(), true});
    dlogits.to_host<float>();
  });
  EXPECT_NE(message.find("id 3 at position 3 is out of range [0, 3)"), std::string::npos) << message;
  if (!on_cpu()) return;
  const std::vector<float> rows = dlogits.to_host<float>();
  EXPECT_NE(rows[0], 0);
  EXPECT_EQ(std::vector<float>(rows.begin() + 3, rows.end()), std::vector<float>(3, 0));
}

TEST_F(Faults, raised_before_an_optimizer_update) {
  const auto before = weights();
  const Tensor targets = ids({1, 2, 3});
  const auto train = [&](const std::vector<int32_t>& from) {
    for (const NamedTensor& p : model->parameters()) p.tensor.clear_grad();
    backward(model->loss(ids(from), targets, {}));
    optimizer->step();
  };
  EXPECT_NE(message_of([&] { train({0, 99, 1}); }).find(kFound), std::string::npos);
  EXPECT_EQ(optimizer->steps(), 0);
  EXPECT_EQ(weights(), before);
  train({0, 60, 1});
  EXPECT_EQ(optimizer->steps(), 1);
  EXPECT_NE(weights(), before);
}

// Later steps are replayed if the device can: the fault is found there too.
TEST_F(Faults, raised_by_a_training_step) {
  TrainingStep step(*model, *optimizer, {});
  const TokenBatch good{1, 3, {0, 60, 1}, {1, 2, 3}}, bad{1, 3, {0, 99, 1}, {1, 2, 3}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(step.gradients({&good, 1}).finite());
    step.apply(0.1);
    const auto before = weights();
    EXPECT_NE(message_of([&] {
                step.gradients({&bad, 1});
                step.apply(0.1);
              }).find(kFound),
              std::string::npos);
    EXPECT_EQ(weights(), before) << "after step " << i;
  }
}

}  // namespace
}  // namespace weft
