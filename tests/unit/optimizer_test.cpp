#include "weft/train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/autograd/backward.h"
#include "weft/backends/open.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/reduce/reduce.h"

namespace weft {
namespace {

// Half the squared distance of each parameter to 1; its gradient is p - 1.
struct Bowl {
  std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  std::vector<NamedTensor> parameters;

  explicit Bowl(DType dtype = DType::f32) {
    add("model.embed_tokens.weight", {6, 4}, dtype);
    add("model.layers.0.mlp.up_proj.weight", {4, 6}, dtype);
    add("model.norm.weight", {4}, dtype);
  }
  void add(const std::string& name, const Shape& shape, DType dtype) {
    std::vector<float> values(size_t(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * float(i % 7) - 0.5f;
    parameters.push_back({name, cast(Tensor::from_host(*device, shape, values), dtype).set_requires_grad()});
  }
  double loss() const {
    static const auto half_square = fuse([](Expr p) { return 0.5f * (p - 1.0f) * (p - 1.0f); });
    double total = 0;
    for (const NamedTensor& p : parameters) {
      p.tensor.clear_grad();
      const Tensor loss = sum_all(half_square.as(DType::f32)(p.tensor));
      backward(loss);
      total += loss.item<float>();
    }
    return total;
  }
  void step(Optimizer& optimizer, double rate) const { optimizer.step(rate, full(*device, {}, 1)); }
};

std::vector<std::string> state_names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const NamedTensor& s : optimizer.state()) names.push_back(s.name);
  return names;
}

TEST(optimizer, names_what_it_keeps) {
  const Bowl bowl;
  const std::string e = "model.embed_tokens.weight", u = "model.layers.0.mlp.up_proj.weight", n = "model.norm.weight";
  const auto names = [&](OptimizerOptions o) { return state_names(Optimizer(*bowl.device, bowl.parameters, o)); };
  EXPECT_EQ(names({.kind = OptimizerKind::adamw}), (std::vector<std::string>{"m." + e, "v." + e, "m." + u, "v." + u, "m." + n, "v." + n}));
  EXPECT_EQ(names({.kind = OptimizerKind::lion}), (std::vector<std::string>{"m." + e, "m." + u, "m." + n}));
  EXPECT_EQ(names({.kind = OptimizerKind::sgd, .momentum = 0}), std::vector<std::string>{});
  EXPECT_EQ(names({.kind = OptimizerKind::muon}), (std::vector<std::string>{"m." + e, "v." + e, "m." + u, "m." + n, "v." + n}));
}

TEST(optimizer, every_kind_goes_downhill) {
  for (OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::muon})
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Bowl bowl(dtype);
      Optimizer optimizer(*bowl.device, bowl.parameters, {.kind = kind, .weight_decay = 0});
      const double first = bowl.loss();
      for (int i = 0; i < 200; ++i) {
        bowl.step(optimizer, 0.02);
        bowl.loss();
      }
      EXPECT_LT(bowl.loss(), 0.2 * first) << name(kind) << " " << dtype;
      EXPECT_EQ(optimizer.steps(), 200);
    }
}

// With no gradient to speak of, plain descent only decays: matrices by default, everything on request.
TEST(optimizer, decays_matrices_or_everything) {
  for (bool all : {false, true}) {
    const Bowl bowl;
    Optimizer optimizer(*bowl.device, bowl.parameters, {.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0.5, .decay_all = all});
    std::vector<std::vector<float>> before;
    for (const NamedTensor& p : bowl.parameters) before.push_back(p.tensor.detach().to_host<float>());
    bowl.loss();
    optimizer.step(0.1, zeros(*bowl.device, {}));  // the gradient is scaled away
    for (size_t i = 0; i < 3; ++i) {
      const float factor = i < 2 || all ? 0.95f : 1.0f;
      const std::vector<float> after = bowl.parameters[i].tensor.detach().to_host<float>();
      for (size_t k = 0; k < after.size(); ++k) EXPECT_NEAR(after[k], factor * before[i][k], 1e-6) << bowl.parameters[i].name;
    }
  }
}

TEST(optimizer, a_bf16_parameter_has_a_master_that_remembers_small_steps) {
  const Bowl bowl(DType::bf16);
  Optimizer optimizer(*bowl.device, bowl.parameters, {.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0});
  ASSERT_EQ(optimizer.state()[0].name, "master.model.embed_tokens.weight");
  for (int i = 0; i < 100; ++i) {
    bowl.loss();
    bowl.step(optimizer, 1e-4);  // each step alone is lost in the rounding to bf16
  }
  const std::vector<float> master = optimizer.state()[0].tensor.to_host<float>();
  EXPECT_NEAR(master[0], 1 + (-0.5 - 1) * std::pow(1 - 1e-4, 100), 1e-3);
  EXPECT_NE(float(bowl.parameters[0].tensor.detach().to_host<bf16>()[0]), -0.5f);
}

TEST(optimizer, says_what_is_wrong) {
  const Bowl bowl;
  EXPECT_THROW(Optimizer(*bowl.device, bowl.parameters, {.beta1 = 1}), Error);
  EXPECT_THROW(Optimizer(*bowl.device, bowl.parameters, {.weight_decay = -1}), Error);
  EXPECT_THROW(Optimizer(*bowl.device, {{"x", zeros(*bowl.device, {2})}}, {}), Error);
  Optimizer optimizer(*bowl.device, bowl.parameters, {});
  EXPECT_THROW(bowl.step(optimizer, 0.1), Error);  // no gradient yet
  EXPECT_THROW(optimizer_from_name("adam"), Error);
}

}  // namespace
}  // namespace weft
