// Properties of every model: gradients match differences, the cache matches the full forward pass, blocks can be recomputed.
#include "weft/models/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/model_cases.h"
#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/autograd/gradcheck.h"
#include "weft/base/philox.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/embedding/embedding.h"

namespace weft {
namespace {

class EveryModel : public testing::TestWithParam<ModelCase> {
 protected:
  std::shared_ptr<Device> device = open_device(test_device(), {.checked = true});

  std::unique_ptr<Model> model(const ModelOptions& options = {}) const { return make_model(GetParam().config, *device, 7, options); }
  Tensor ids(int64_t B, int64_t T, uint64_t seed = 1) const {
    PhiloxStream random(seed);
    std::vector<int32_t> values(size_t(B * T));
    for (int32_t& id : values) id = int32_t(random.below(GetParam().config.vocab_size));
    return Tensor::from_host(*device, {B, T}, values);
  }
  static double largest(const std::vector<float>& values) {
    double most = 0;
    for (float v : values) most = std::max(most, std::abs(double(v)));
    return most;
  }
};

TEST_P(EveryModel, parameter_count) {
  int64_t total = 0;
  const auto m = model();
  for (const NamedTensor& p : m->parameters()) total += p.tensor.numel();
  EXPECT_EQ(total, GetParam().config.parameter_count());
}

TEST_P(EveryModel, gradients_match_finite_differences) {
  ModelConfig config = GetParam().config;
  config.experts_per_token = config.experts;  // else a step may choose other experts (weft/ops/route checks that gradient)
  const auto m = make_model(config, *device, 7, {.trainable = true});
  const Tensor tokens = ids(2, 7);
  const bool kinks = config.activation == HiddenActivation::relu;  // the step must rarely cross one
  const std::vector<Parameter> parameters = m->parameters();
  const std::vector<NamedTensor> leaves(parameters.begin(), parameters.end());
  for (const GradcheckResult& r : gradcheck([&] { return m->logits(tokens); }, leaves, {.step = kinks ? 2e-3 : 2e-2}))
    EXPECT_LE(r.error(), kinks ? 2e-2 : 2e-3) << r.name << ": " << r.analytic << " " << r.numeric;
}

TEST_P(EveryModel, loss_matches_logits) {
  const auto m = model({.trainable = true});
  const Tensor tokens = ids(2, 9), targets = ids(2, 9, 2);
  std::vector<std::vector<float>> plain;
  const Tensor expected = cross_entropy(m->logits(tokens), targets, {.pad_id = 5});
  backward(expected);
  for (const NamedTensor& p : m->parameters()) {
    plain.push_back(p.tensor.grad().to_host<float>());
    p.tensor.clear_grad();
  }
  const Tensor loss = m->loss(tokens, targets, {.pad_id = 5});
  EXPECT_NEAR(loss.item<float>(), expected.item<float>(), 1e-5);
  backward(loss);
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::vector<float> got = m->parameters()[i].tensor.grad().to_host<float>();
    for (size_t j = 0; j < got.size(); ++j) EXPECT_NEAR(got[j], plain[i][j], 1e-5 * largest(plain[i])) << m->parameters()[i].name;
  }
}

// The bound: two orders of summing the same f32 terms, through all layers. 2e-5 of the largest logit; bf16 rounds each activation to 2^-9,
// a few dozen times.
TEST_P(EveryModel, cache_matches_full_forward) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto m = model({.dtype = dtype});
    constexpr int64_t kLength = 24;
    const Tensor tokens = ids(2, kLength);
    const std::vector<float> all = m->logits(tokens).to_host<float>();
    const int64_t V = GetParam().config.vocab_size;
    const double bound = (dtype == DType::f32 ? 2e-5 : 0.05) * largest(all);
    for (int64_t prompt : {int64_t(1), int64_t(7), kLength}) {
      KvCache cache = m->make_cache(2, kLength);
      for (int64_t t = 0; t < kLength;) {
        const int64_t T = t == 0 ? prompt : t % 5 == 4 ? std::min<int64_t>(3, kLength - t) : 1;  // sometimes three at once
        const std::vector<float> got = m->last_logits(contiguous(tokens.part(1, t, t + T)), cache).to_host<float>();
        t += T;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t v = 0; v < V; ++v)
            ASSERT_NEAR(got[size_t(b * V + v)], all[size_t((b * kLength + t - 1) * V + v)], bound) << "after " << t << " tokens, " << dtype;
      }
    }
  }
}

TEST_P(EveryModel, padded_sequences_are_independent) {
  const auto m = model();
  const int64_t V = GetParam().config.vocab_size;
  const Tensor tokens = ids(3, 9);
  const std::vector<int64_t> lengths{9, 4, 1};
  KvCache together = m->make_cache(3, 16);
  std::vector<float> first = m->last_logits(tokens, together, lengths).to_host<float>();
  const Tensor next = ids(3, 1, 3);
  std::vector<float> second = m->last_logits(next, together).to_host<float>();
  EXPECT_EQ(together.lengths(), (std::vector<int64_t>{10, 5, 2}));
  for (int64_t b = 0; b < 3; ++b) {
    KvCache alone = m->make_cache(1, 16);
    const std::vector<float> x =
        m->last_logits(contiguous(tokens.part(0, b, b + 1).part(1, 0, lengths[size_t(b)])), alone).to_host<float>();
    const std::vector<float> y = m->last_logits(contiguous(next.part(0, b, b + 1)), alone).to_host<float>();
    for (int64_t v = 0; v < V; ++v) {
      EXPECT_NEAR(first[size_t(b * V + v)], x[size_t(v)], 2e-5 * largest(x));
      EXPECT_NEAR(second[size_t(b * V + v)], y[size_t(v)], 2e-5 * largest(y));
    }
  }
}

TEST_P(EveryModel, recompute_is_bitwise_equal) {
  ModelConfig config = GetParam().config;
  config.embedding_dropout = config.residual_dropout = config.attention_dropout = 0.1f;
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto m = make_model(config, *device, 7, {.dtype = dtype, .trainable = true});
    const Tensor tokens = ids(2, 12), targets = ids(2, 12, 2), state = random_state(*device, 3);
    std::vector<std::vector<float>> grads[2];
    for (bool again : {false, true}) {
      backward(m->loss(tokens, targets, {.dropout = state, .recompute = again}));
      for (const NamedTensor& p : m->parameters()) {
        grads[again].push_back(p.tensor.grad().to_host<float>());
        p.tensor.clear_grad();
      }
    }
    for (size_t i = 0; i < grads[0].size(); ++i) EXPECT_EQ(grads[0][i], grads[1][i]) << m->parameters()[i].name;
  }
}

TEST_P(EveryModel, dropout_is_reproducible) {
  ModelConfig config = GetParam().config;
  const auto dry = model();
  config.attention_dropout = 1e-12f;  // drops nothing, but uses the kernel with dropout
  const auto careful = make_model(config, *device, 7);
  config.embedding_dropout = config.residual_dropout = config.attention_dropout = 0.5f;
  const auto wet = make_model(config, *device, 7);
  const Tensor tokens = ids(2, 12), targets = ids(2, 12, 2), state = random_state(*device, 3);
  const auto loss = [&](const Model& m, const Tensor& random) { return m.loss(tokens, targets, {.dropout = random}).item<float>(); };
  EXPECT_NEAR(loss(*dry, state), loss(*careful, state), 1e-5 * loss(*dry, state));
  EXPECT_EQ(loss(*wet, Tensor()), loss(*dry, Tensor()));
  const float once = loss(*wet, state);
  EXPECT_NE(once, loss(*dry, state));
  EXPECT_EQ(once, loss(*wet, state));
  advance_random_state(state);
  EXPECT_NE(once, loss(*wet, state));
}

TEST_P(EveryModel, inference_saves_nothing) {
  const auto m = model({.trainable = true});
  KvCache cache = m->make_cache(1, 16);
  const int64_t T = 4;
  m->last_logits(ids(1, T), cache);  // warm-up: tables and kernels are made on first use
  const int64_t before = device->pool().stats().live;
  const Tensor logits = m->last_logits(ids(1, T), cache);
  EXPECT_EQ(device->pool().stats().live, before + 1);
  EXPECT_FALSE(logits.requires_grad());
}

// The load-balancing loss is one of all layers: blocks that are recomputed pass its sums on.
TEST(RouterLoss, recomputed_blocks_have_the_same_bits) {
  const auto device = open_device(test_device(), {.checked = true});
  for (const ModelCase& each : model_cases()) {
    if (each.config.experts == 0) continue;
    ModelConfig config = each.config;
    config.router_loss = 0.5;
    const auto m = make_model(config, *device, 7, {.trainable = true});
    const Tensor ids = Tensor::from_host(*device, {2, 6}, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    std::vector<std::vector<float>> plain;
    for (const bool again : {false, true}) {
      const Tensor loss = m->loss(ids, ids, {.recompute = again}), half = m->loss(ids, ids, {.share = full(*device, {}, 0.5)});
      config.router_loss = 0;
      const float alone = make_model(config, *device, 7)->loss(ids, ids).item<float>(), whole = loss.item<float>();
      EXPECT_GT(whole, alone + 0.1f) << each.name;
      EXPECT_NEAR(half.item<float>() - alone, (whole - alone) / 2, 1e-5) << each.name;
      backward(loss);
      for (size_t i = 0; i < m->parameters().size(); ++i) {
        const NamedTensor& p = m->parameters()[i];
        if (!again)
          plain.push_back(p.tensor.grad().to_host<float>());
        else
          EXPECT_EQ(p.tensor.grad().to_host<float>(), plain[i]) << each.name << " " << p.name;
        p.tensor.clear_grad();
      }
    }
  }
}

// Rows that are padded to other lengths, or not at all, have one loss and one gradient.
TEST(RouterLoss, does_not_depend_on_padding) {
  const auto device = open_device(test_device(), {.checked = true});
  for (const ModelCase& each : model_cases()) {
    if (each.config.experts == 0) continue;
    ModelConfig config = each.config;
    config.router_loss = 0.5;
    const auto m = make_model(config, *device, 7, {.trainable = true});
    const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6};
    std::vector<float> losses;
    std::vector<std::vector<float>> gradients;
    for (int64_t padding : {0, 1, 9}) {
      std::vector<int32_t> ids = tokens, targets = tokens;
      std::vector<float> real(tokens.size(), 1);
      ids.resize(ids.size() + size_t(padding), 7), targets.resize(ids.size(), -100), real.resize(ids.size(), 0);
      const Shape shape{1, int64_t(ids.size())};
      LossOptions options{.pad_id = -100};
      options.real = Tensor::from_host(*device, shape, real);
      const Tensor loss = m->loss(Tensor::from_host(*device, shape, ids), Tensor::from_host(*device, shape, targets), options);
      backward(loss);
      losses.push_back(loss.item<float>());
      gradients.push_back({});
      for (const NamedTensor& p : m->parameters()) {
        const std::vector<float> values = p.tensor.grad().to_host<float>();
        gradients.back().insert(gradients.back().end(), values.begin(), values.end());
        p.tensor.clear_grad();
      }
      EXPECT_NEAR(losses.back(), losses[0], 1e-6 * std::abs(losses[0])) << each.name << ", padding " << padding;
      for (size_t i = 0; i < gradients[0].size(); ++i)
        ASSERT_NEAR(gradients.back()[i], gradients[0][i], 1e-6 + 1e-5 * std::abs(gradients[0][i])) << each.name << ", padding " << padding;
    }
    LossOptions unpadded;
    const Tensor ids = Tensor::from_host(*device, {1, 6}, tokens);
    EXPECT_EQ(m->loss(ids, ids, unpadded).item<float>(), losses[0]) << each.name;
  }
}

INSTANTIATE_TEST_SUITE_P(settings, EveryModel, testing::ValuesIn(model_cases()), [](const auto& info) { return info.param.name; });

TEST(Models, rejects_bad_inputs) {
  const auto device = open_device(test_device(), {.checked = true});
  const auto m = make_model(preset("llama-tiny"), *device, 1);
  const auto ids = [&](int64_t T, int32_t id) { return Tensor::from_host(*device, {1, T}, std::vector<int32_t>(size_t(T), id)); };
  const NoGrad no_grad;
  EXPECT_THROW(m->logits(ids(257, 0)), Error);
  EXPECT_THROW((m->logits(ids(4, 512)), device->synchronize()), Error);  // a GPU finds it during the computation
  EXPECT_EQ(message_of([&] { m->logits(zeros(*device, {1, 4})); }),
            "logits: ids must be [batch, time] of i32 or u32, got f32 of shape 1x4");
  EXPECT_EQ(message_of([&] { m->loss(ids(4, 0), zeros(*device, {1, 4})); }),
            "loss: targets must be i32 or u32 of ids' shape 1x4, got f32 of shape 1x4");
  EXPECT_EQ(message_of([&] { embedding(zeros(*device, {5, 2}), zeros(*device, {4})); }), "embedding: ids is f32, expected i32 or u32");
  EXPECT_EQ(message_of([&] { cross_entropy(zeros(*device, {4, 5}), zeros(*device, {4})); }),
            "cross_entropy: targets is f32, expected i32 or u32");
  EXPECT_THROW(m->make_cache(1, 257), Error);
  KvCache cache = m->make_cache(1, 4);
  EXPECT_THROW(m->last_logits(ids(5, 0), cache), Error);
  m->last_logits(ids(4, 0), cache);
  EXPECT_THROW(m->last_logits(ids(1, 0), cache), Error);
  EXPECT_THROW(preset("gpt5"), Error);
  ModelConfig c = preset("llama-tiny");
  c.kv_heads = 3;
  EXPECT_THROW(make_model(c, *device, 1), Error);
}

// -100 marks an ignored target, as in PyTorch: the sum is divided by the number of the others.
TEST(Models, negative_targets_are_ignored) {
  const auto device = open_device(test_device());
  const auto m = make_model(preset("llama-tiny"), *device, 1);
  const NoGrad no_grad;
  const auto ids = [&](std::vector<int32_t> values) { return Tensor::from_host(*device, {1, int64_t(values.size())}, values); };
  const float three = m->loss(ids({1, 2, 3}), ids({2, 3, 4})).item<float>();
  const float padded = m->loss(ids({1, 2, 3, 9, 9}), ids({2, 3, 4, -100, -100}), {.pad_id = -100}).item<float>();
  EXPECT_NEAR(padded, three, 1e-5 * three);
}

TEST(Models, preset_sizes) {
  EXPECT_EQ(preset("gpt2-124m").parameter_count(), 124439808);
  EXPECT_EQ(preset("smollm2-135m").parameter_count(), 134515008);
  EXPECT_EQ(preset("llama-3.2-1b").parameter_count(), 1235814400);
  EXPECT_EQ(preset("qwen2.5-0.5b").parameter_count(), 494032768);
  EXPECT_EQ(preset("qwen2.5-1.5b").parameter_count(), 1543714304);
  EXPECT_EQ(preset("qwen3-0.6b").parameter_count(), 596049920);
  EXPECT_EQ(preset("shakespeare-char").parameter_count(), 10770816);
  EXPECT_EQ(preset("mistral-7b").parameter_count(), 7241732096);
  EXPECT_EQ(preset("granite-3.3-2b").parameter_count(), 2533539840);
  EXPECT_EQ(preset("smollm3-3b").parameter_count(), 3075098624);
  EXPECT_EQ(preset("olmo2-1b").parameter_count(), 1484916736);
  EXPECT_EQ(preset("olmo3-7b").parameter_count(), 7298011136);
  EXPECT_EQ(preset("ministral-3-3b").parameter_count(), 3429006336);
  EXPECT_EQ(preset("gemma-2-2b").parameter_count(), 2614341888);
  EXPECT_EQ(preset("phi-3-mini").parameter_count(), 3821079552);
  EXPECT_EQ(preset("gemma-3-270m").parameter_count(), 268098176);
  EXPECT_EQ(preset("gemma-3-1b").parameter_count(), 999885952);
}

TEST(Models, other_numbers_of_layers_keep_the_pattern) {
  ModelConfig smol = preset("smollm3-3b"), gemma = preset("gemma-3-270m");
  set_layers(smol, 5);
  EXPECT_EQ(smol.rotary_layers, (std::vector<bool>{true, true, true, false, true}));
  set_layers(gemma, 1);
  EXPECT_EQ(gemma.window_layers, std::vector<bool>{true});
  check_config(gemma);
  set_layers(gemma, 20);
  EXPECT_EQ(gemma.window_layers.size(), 20u);
}

// dynamic and longrope positions follow the declared context, never the length of a sequence.
TEST(Models, declared_context) {
  const auto device = open_device(test_device());
  const Tensor ids = Tensor::from_host(*device, {1, 6}, std::vector<int32_t>{3, 1, 4, 1, 5, 9});
  const auto logits = [&](const ModelConfig& c, std::optional<int64_t> context) {
    return make_model(c, *device, 1, {.context = context})->logits(ids).to_host<float>();
  };
  ModelConfig dynamic = preset("llama-tiny"), plain = dynamic;
  dynamic.rope_scaling = {.kind = RopeScaling::Kind::dynamic, .factor = 3, .original_context = 256};
  EXPECT_EQ(logits(dynamic, {}), logits(plain, {}));
  plain.rope_theta *= std::pow(3.0 * 512 / 256 - 2, 16.0 / 14);
  EXPECT_EQ(logits(dynamic, 512), logits(plain, {}));
  EXPECT_EQ(message_of([&] { logits(dynamic, 769); }), "context: a context of 769 tokens is not possible, expected 1 to 768");

  ModelConfig scaled = preset("llama-tiny");
  scaled.rope_scaling = {.kind = RopeScaling::Kind::longrope, .original_context = 64};
  scaled.rope_scaling.short_factors.assign(8, 1), scaled.rope_scaling.long_factors.assign(8, 3);
  plain = preset("llama-tiny");
  EXPECT_EQ(logits(scaled, 64), logits(plain, {}));
  plain.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 3};
  EXPECT_EQ(logits(scaled, 65), logits(plain, {}));
  EXPECT_THROW(logits(preset("shakespeare-char"), 100), Error);

  ModelConfig windowed = preset("llama-tiny");
  windowed.window = 300;
  EXPECT_EQ(message_of([&] { logits(windowed, {}); }), "config: a window of 300 tokens exceeds the context of 256");
}

TEST(Models, new_weights_depend_on_the_seed_only) {
  const auto one = open_device("cpu", {.threads = 1}), two = open_device("cpu", {.threads = 2});
  const auto a = make_model(preset("llama-tiny"), *one, 1), b = make_model(preset("llama-tiny"), *two, 1),
             c = make_model(preset("llama-tiny"), *two, 2);
  const std::vector<float> x = a->parameters()[0].tensor.to_host<float>();
  EXPECT_EQ(x, b->parameters()[0].tensor.to_host<float>());
  EXPECT_NE(x, c->parameters()[0].tensor.to_host<float>());
  double sum = 0, squares = 0;
  for (float v : x) sum += v, squares += double(v) * v;
  EXPECT_NEAR(sum / double(x.size()), 0, 0.001);
  EXPECT_NEAR(std::sqrt(squares / double(x.size())), 0.02, 0.0005);
}

}  // namespace
}  // namespace weft
