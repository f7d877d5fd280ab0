// Models over packed documents: each token's logits and loss have the bits of its document alone, in every architecture.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/model_cases.h"
#include "tests/unit/test_device.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/base/philox.h"

namespace weft {
namespace {

// Two rows of 24 tokens: documents of one token, empty ones, one that crosses the rows, and a padded tail.
constexpr int64_t kB = 2, kT = 24;
const std::vector<int32_t> kDocuments{0, 1, 8, 8, 19, 33, 47, 48, 48, 48};

std::vector<uint8_t> bytes(const Tensor& t) {
  std::vector<uint8_t> result(size_t(t.numel() * size_of(t.dtype())));
  t.read_bytes(t.dtype(), result.data(), int64_t(result.size()));
  return result;
}
template <class T>
std::vector<T> range(const std::vector<T>& all, int64_t first, int64_t last, int64_t size) {
  return {all.begin() + first * size, all.begin() + last * size};
}

class EveryPackedModel : public testing::TestWithParam<ModelCase> {
 protected:
  std::shared_ptr<Device> device = open_device(test_device(), {.checked = true});
  const std::vector<int32_t> ids = draw(1), targets = draw(2);
  const Tensor documents = Tensor::from_host(*device, {int64_t(kDocuments.size())}, kDocuments);
  const Tensor count = Tensor::from_host(*device, {}, std::vector<float>{float(kB * kT)});

  std::vector<int32_t> draw(uint64_t seed) const {
    PhiloxStream random(seed);
    std::vector<int32_t> values(size_t(kB * kT));
    for (int32_t& id : values) id = int32_t(random.below(GetParam().config.vocab_size));
    return values;
  }
  Tensor rows(const std::vector<int32_t>& values, Device& on) const { return Tensor::from_host(on, {kB, kT}, values); }
  Tensor row(const std::vector<int32_t>& values, int64_t first, int64_t last) const {
    return Tensor::from_host(*device, {1, last - first}, range(values, first, last, 1));
  }
  std::unique_ptr<Model> model(const ModelOptions& options) const { return make_model(GetParam().config, *device, 7, options); }

  // The losses of all positions of both rows, and the gradients of the trained parameters.
  struct Step {
    std::vector<uint8_t> losses;
    std::vector<std::vector<float>> gradients;
  };
  Step packed(const Model& m, LossOptions options = {}) const {
    options.documents = documents;
    return step(m, rows(ids, *device), rows(targets, *device), options);
  }
  Step alone(const Model& m, int64_t first, int64_t last) const { return step(m, row(ids, first, last), row(targets, first, last), {}); }
  Step step(const Model& m, const Tensor& tokens, const Tensor& wanted, LossOptions options) const {
    options.count = count;
    options.losses = Tensor::empty(*device, tokens.shape());
    const Tensor loss = m.loss(tokens, wanted, options);
    Step result{bytes(options.losses), {}};
    if (m.trainable_parameters().empty()) return result;
    backward(loss);
    for (const Parameter& p : m.trainable_parameters()) {
      result.gradients.push_back(p.tensor.grad().to_host<float>());
      p.tensor.clear_grad();
    }
    return result;
  }
  // Calls f(first token, one past the last) for each document that is not empty.
  template <class F>
  static void for_each_document(F f) {
    for (size_t d = 0; d + 1 < kDocuments.size(); ++d)
      if (kDocuments[d] < kDocuments[d + 1]) f(kDocuments[d], kDocuments[d + 1]);
  }
};

TEST_P(EveryPackedModel, losses_and_logits_have_the_bits_of_each_document_alone) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto m = model({.dtype = dtype});
    const std::vector<uint8_t> losses = packed(*m).losses, logits = bytes(m->logits(rows(ids, *device), documents));
    for_each_document([&](int64_t first, int64_t last) {
      SCOPED_TRACE(join(dtype, " document ", first, " to ", last));
      EXPECT_EQ(range(losses, first, last, 4), alone(*m, first, last).losses);
      EXPECT_EQ(range(logits, first, last, 4 * GetParam().config.vocab_size), bytes(m->logits(row(ids, first, last))));
    });
  }
}

// The gradients of tokens have the bits of the document alone; those of weights are sums over all tokens, in another order: f32 sums of
// 48 terms. In bf16 each sum is rounded once, and a tied head's twice more: 3 2^-8 of what is added up.
TEST_P(EveryPackedModel, weight_gradients_are_the_sums_over_documents) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto m = model({.dtype = dtype, .trainable = true});
    const Step all = packed(*m);
    std::vector<std::vector<double>> sum, size;
    for (const auto& g : all.gradients) sum.emplace_back(g.size(), 0.0), size.emplace_back(g.size(), 0.0);
    for_each_document([&](int64_t first, int64_t last) {
      const Step one = alone(*m, first, last);
      for (size_t i = 0; i < sum.size(); ++i)
        for (size_t j = 0; j < sum[i].size(); ++j) sum[i][j] += one.gradients[i][j], size[i][j] += std::abs(double(one.gradients[i][j]));
    });
    for (size_t i = 0; i < sum.size(); ++i) {
      double largest = 0;
      for (double s : size[i]) largest = std::max(largest, s);
      for (size_t j = 0; j < sum[i].size(); ++j) {
        const double rounded = dtype == DType::bf16 ? 3 * 0x1p-8 * (size[i][j] + std::abs(double(all.gradients[i][j]))) : 0;
        ASSERT_NEAR(all.gradients[i][j], sum[i][j], rounded + 1e-5 * largest) << m->parameters()[i].name << " " << j << " " << dtype;
      }
    }
  }
}

TEST_P(EveryPackedModel, recompute_is_bitwise_equal) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto m = model({.dtype = dtype, .trainable = true});
    const Step kept = packed(*m), again = packed(*m, {.recompute = true});
    EXPECT_EQ(kept.losses, again.losses);
    EXPECT_EQ(kept.gradients, again.gradients);
  }
}

TEST_P(EveryPackedModel, adapters_see_documents_alone) {
  const auto m = model({.trainable = true, .lora = LoraOptions{.rank = 2, .scale = 0.7, .targets = {"all-linear"}, .seed = 5}});
  for (const Parameter& p : m->trainable_parameters()) p.tensor.write(normal_values(p.tensor.numel(), 3, 0.2));
  const Step all = packed(*m);
  for_each_document([&](int64_t first, int64_t last) { EXPECT_EQ(range(all.losses, first, last, 4), alone(*m, first, last).losses); });
}

// Dropout of probabilities holds them in memory, under a mask: a document's losses do not depend on the other documents' tokens.
TEST_P(EveryPackedModel, dropout_stays_within_documents) {
  ModelConfig config = GetParam().config;
  config.embedding_dropout = config.residual_dropout = config.attention_dropout = 0.3f;
  const auto m = make_model(config, *device, 7, {.trainable = true});
  const Tensor state = random_state(*device, 3);
  const auto losses = [&](const std::vector<int32_t>& tokens) {
    const Tensor losses = Tensor::empty(*device, {kB, kT});
    backward(m->loss(rows(tokens, *device), rows(targets, *device), {.dropout = state, .losses = losses, .documents = documents}));
    return bytes(losses);
  };
  const std::vector<uint8_t> before = losses(ids);
  for_each_document([&](int64_t first, int64_t last) {
    std::vector<int32_t> others = draw(9);
    std::copy(ids.begin() + first, ids.begin() + last, others.begin() + first);
    const std::vector<uint8_t> after = losses(others);
    EXPECT_EQ(range(before, first, last, 4), range(after, first, last, 4)) << first;
    EXPECT_NE(before, after);
  });
}

// The memory plan runs the same step without memory.
TEST_P(EveryPackedModel, counting_device_allocates_what_the_cpu_does) {
  const auto real = open_device("cpu", {.threads = 2}), counted = counting::open_device(2);
  for (const auto& on : {real, counted}) {
    const auto m = make_model(GetParam().config, *on, 7, {.trainable = true});
    const Tensor lengths = Tensor::from_host(*on, {int64_t(kDocuments.size())}, kDocuments);
    backward(m->loss(rows(ids, *on), rows(targets, *on), {.documents = lengths}));
  }
  const PoolStats a = real->pool().stats(), b = counted->pool().stats();
  EXPECT_EQ(a.of(MemoryUse::activations).high_water, b.of(MemoryUse::activations).high_water);
  // With experts it depends on how many tokens each gets: the plan gives all of them to one.
  if (GetParam().config.experts == 0) {
    EXPECT_EQ(a.of(MemoryUse::workspace).high_water, b.of(MemoryUse::workspace).high_water);
  }
  EXPECT_GT(counting::counts(*counted).kernels().at("causal_attention_backward").launches, 0);
}

TEST_P(EveryPackedModel, bad_documents_are_named) {
  const auto m = model({});
  const auto message = [&](const Tensor& lengths) {
    try {
      m->logits(rows(ids, *device), lengths);
      device->stream().synchronize();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto lengths = [&](const std::vector<int32_t>& values) { return Tensor::from_host(*device, {int64_t(values.size())}, values); };
  const std::string any = "lengths that ascend from 0 to 48";  // a GPU's message
  const auto expected = [&](const std::string& of_cpu) { return ", expected " + (on_cpu() ? of_cpu : any); };
  EXPECT_NE(message(lengths({0, 24})).find("documents[1] is 24" + expected("the number of tokens, 48")), std::string::npos);
  EXPECT_NE(message(lengths({0, 30, 20, 48})).find("documents[2] is 20" + expected("30 to 48")), std::string::npos);
  EXPECT_NE(message(Tensor::empty(*device, {2})).find("cumulative lengths"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(settings, EveryPackedModel, testing::ValuesIn(model_cases()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft
