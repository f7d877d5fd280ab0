#include "weft/train/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/observed.h"
#include "weft/autograd/backward.h"
#include "weft/backends/open.h"
#include "weft/nn/mlp.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/operators.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/train/optimizer_choice.h"

namespace weft {
namespace {

// Half the squared distance of each parameter to 1; its gradient is p - 1.
struct Bowl {
  std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  std::vector<Parameter> parameters;

  explicit Bowl(DType dtype = DType::f32) {
    add("model.embed_tokens.weight", {6, 4}, dtype, ParameterRole::embedding);
    add("model.layers.0.mlp.up_proj.weight", {4, 6}, dtype, ParameterRole::matrix);
    add("model.norm.weight", {4}, dtype, ParameterRole::vector);
  }
  void add(const std::string& name, const Shape& shape, DType dtype, ParameterRole role) {
    std::vector<float> values(size_t(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * float(i % 7) - 0.5f;
    parameters.push_back({name, cast(Tensor::from_host(*device, shape, values), dtype).set_requires_grad(), role});
  }
  double loss() const {
    static const auto half_square = fuse([](Expr p) { return 0.5f * (p - 1.0f) * (p - 1.0f); });
    double total = 0;
    for (const Parameter& p : parameters) {
      p.tensor.clear_grad();
      const Tensor loss = sum_all(half_square.as(DType::f32)(p.tensor));
      loss.backward();
      total += loss.item<float>();
    }
    return total;
  }
};

std::vector<std::string> state_names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const NamedTensor& s : optimizer.state()) names.push_back(s.name);
  return names;
}

TEST(optimizer, names_its_state) {
  const Bowl bowl;
  const std::string e = "model.embed_tokens.weight", u = "model.layers.0.mlp.up_proj.weight", n = "model.norm.weight";
  using Names = std::vector<std::string>;
  EXPECT_EQ(state_names(AdamW(bowl.parameters)), (Names{"m." + e, "v." + e, "m." + u, "v." + u, "m." + n, "v." + n}));
  EXPECT_EQ(state_names(Lion(bowl.parameters)), (Names{"m." + e, "m." + u, "m." + n}));
  EXPECT_EQ(state_names(SGD(bowl.parameters)), (Names{"m." + e, "m." + u, "m." + n}));
  EXPECT_EQ(state_names(SGD(bowl.parameters, {.momentum = 0})), Names{});
  EXPECT_EQ(state_names(Muon(bowl.parameters)), (Names{"m." + e, "v." + e, "m." + u, "m." + n, "v." + n}));
}

TEST(optimizer, every_one_minimises) {
  for (const char* name : {"adamw", "sgd", "lion", "muon"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Bowl bowl(dtype);
      TrainConfig config;
      config.optimizer = name;
      config.weight_decay = 0;
      const auto optimizer = make_optimizer(config, bowl.parameters);
      optimizer->set_learning_rate(0.02);
      const double first = bowl.loss();
      for (int i = 0; i < 200; ++i) {
        optimizer->step();
        bowl.loss();
      }
      EXPECT_LT(bowl.loss(), 0.2 * first) << name << " " << dtype;
      EXPECT_EQ(optimizer->steps(), 200);
    }
}

// The gradient is scaled to zero, so plain descent only decays: by role, or everything on request.
TEST(optimizer, decays_by_role_or_everything) {
  for (bool all : {false, true}) {
    const Bowl bowl;
    SGD optimizer(bowl.parameters, {.learning_rate = 0.1, .momentum = 0, .weight_decay = 0.5, .decay_all = all});
    std::vector<std::vector<float>> before;
    for (const Parameter& p : bowl.parameters) before.push_back(p.tensor.detach().to_host<float>());
    bowl.loss();
    optimizer.step(zeros(*bowl.device, {}));
    for (size_t i = 0; i < 3; ++i) {
      const float factor = i < 2 || all ? 0.95f : 1.0f;
      const std::vector<float> after = bowl.parameters[i].tensor.detach().to_host<float>();
      for (size_t k = 0; k < after.size(); ++k) EXPECT_NEAR(after[k], factor * before[i][k], 1e-6) << bowl.parameters[i].name;
    }
  }
}

TEST(optimizer, master_weights_keep_small_steps_of_bf16) {
  const Bowl bowl(DType::bf16);
  SGD optimizer(bowl.parameters, {.learning_rate = 1e-4, .momentum = 0, .weight_decay = 0});
  ASSERT_EQ(optimizer.state()[0].name, "master.model.embed_tokens.weight");
  for (int i = 0; i < 100; ++i) {
    bowl.loss();
    optimizer.step();  // each step alone is lost in the rounding to bf16
  }
  const std::vector<float> master = optimizer.state()[0].tensor.to_host<float>();
  EXPECT_NEAR(master[0], 1 + (-0.5 - 1) * std::pow(1 - 1e-4, 100), 1e-3);
  EXPECT_NE(float(bowl.parameters[0].tensor.detach().to_host<bf16>()[0]), -0.5f);
}

TEST(optimizer, gradients_add_up_until_zero_grad) {
  const auto device = open_device("cpu", {.threads = 1});
  const Tensor w = full(*device, {2}, 1).set_requires_grad();
  SGD optimizer({w}, {.learning_rate = 1, .momentum = 0, .weight_decay = 0});
  const auto gradient = [&] {
    sum_all(w * 0.5).backward();
    return w.grad().to_host<float>()[0];
  };
  EXPECT_EQ(gradient(), 0.5f);
  optimizer.step();
  EXPECT_EQ(w.detach().to_host<float>()[0], 0.5f);
  EXPECT_EQ(gradient(), 1.0f);  // step() left the gradient
  optimizer.zero_grad();
  EXPECT_EQ(w.grad().to_host<float>()[0], 0.0f);
  EXPECT_EQ(gradient(), 0.5f);
  EXPECT_FLOAT_EQ(optimizer.gradient_norm(0.1).norm.item<float>(), float(std::sqrt(0.5)));
}

TEST(optimizer, trains_layers_of_their_own) {
  const auto device = open_device("cpu", {.threads = 1});
  const Tensor x = Tensor::from_host(*device, {2, 4}, std::vector<float>{1, 0, -1, 2, 0, 1, 1, -1});
  const Tensor targets = Tensor::from_host(*device, {2}, std::vector<int32_t>{0, 2});
  Mlp mlp{.fc = Linear(*device, 4, 8, {.bias = true}, /*seed=*/1), .proj = Linear(*device, 8, 3, /*seed=*/2)};
  AdamW optimizer(mlp.parameters(), {.learning_rate = 0.05});
  std::vector<std::string> names;
  for (const Parameter& p : optimizer.parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fc.weight", "fc.bias", "proj.weight"}));
  float last = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor loss = cross_entropy(mlp(x), targets);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    last = loss.item<float>();
  }
  EXPECT_LT(last, 0.1f);
}

TEST(optimizer, errors_name_the_value) {
  const Bowl bowl;
  const auto fails = [](const auto& make, const std::string& words) {
    EXPECT_NE(message_of(make).find(words), std::string::npos) << message_of(make);
  };
  fails([&] { AdamW(bowl.parameters, {.beta1 = 1}); }, "beta1 is 1");
  fails([&] { AdamW(bowl.parameters, {.weight_decay = -1}); }, "weight_decay is -1");
  fails([&] { SGD(bowl.parameters, {.momentum = 0, .nesterov = true}); }, "nesterov needs a momentum above 0");
  fails([&] { AdamW({{"x", zeros(*bowl.device, {2})}}); }, "parameter x requires no gradient");
  fails([&] { AdamW({}); }, "there are no parameters");
  fails([&] { AdamW(bowl.parameters).step(); }, "parameter model.embed_tokens.weight has no gradient");
  fails([&] { check_optimizer_name("adam"); }, "there is no optimizer 'adam', expected adamw, sgd, lion or muon");
}

}  // namespace
}  // namespace weft
