// Logits of a position have one set of bits on the CPU: in a training batch, in evaluation, in chunks of a prompt, decoded alone or
// beside sequences of other lengths, after the cache was copied, with and without an adapter. tests/cpu_order.cmake runs this for every
// kind of bf16 and for AVX2.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/cpu_order.h"
#include "weft/ops/copy/copy.h"
#include "weft/weft.h"

namespace weft::cpu_order {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kVocabulary = 131, kContext = 640;

struct Case {
  const char* name;
  Architecture architecture;
  int64_t heads, kv_heads, head_dim;
  bool tied, lora;
  DType dtype;
};

std::unique_ptr<Model> model_of(const Case& c) {
  ModelConfig config = preset(c.architecture == Architecture::gpt2 ? "shakespeare-char" : "llama-tiny");
  config.hidden_size = 64;
  config.layers = 2;
  config.heads = c.heads;
  config.kv_heads = c.kv_heads;
  config.head_dim = c.head_dim;
  config.intermediate_size = 112;
  config.vocab_size = kVocabulary;
  config.max_positions = kContext;
  config.tie_embeddings = c.tied;
  config.initializer_range = 0.2;  // so that logits differ
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  ModelOptions options{.dtype = c.dtype, .trainable = true};
  if (c.lora) options.lora = LoraOptions{.rank = 4, .targets = {"all-linear"}};
  auto model = make_model(config, *open_device("cpu"), 5, options);
  Values values(3);
  for (const LoraAdapter& adapter : model->adapters()) {  // B starts at zero
    const Tensor& b = adapter.matrices.b;
    copy(cast(Tensor::from_host(model->device(), b.shape(), values.normal(b.numel(), c.dtype, 0.2f)), c.dtype), b.detach());
  }
  return model;
}

class OneOrder : public testing::TestWithParam<Case> {
 protected:
  OneOrder() : model_(model_of(GetParam())) {
    Values values(7);
    for (Ids& ids : sequences_)
      for (int i = 0; i < 600; ++i) ids.push_back(int32_t(values.from(0, kVocabulary - 1)));
  }

  Tensor ids(const Ids& ids, int64_t first, int64_t count) const {
    return Tensor::from_host(model_->device(), {1, count}, std::span<const int32_t>(ids).subspan(size_t(first), size_t(count)));
  }
  // [T, V] of sequence `which` in a training pass over `count` sequences of T tokens, which keeps what a backward pass needs.
  std::vector<float> trained(std::initializer_list<int> batch, size_t which, int64_t T) const {
    Ids all;
    for (int i : batch) all.insert(all.end(), sequences_[i].begin(), sequences_[i].begin() + T);
    const Tensor logits = model_->logits(Tensor::from_host(model_->device(), {int64_t(batch.size()), T}, all));
    return logits.detach().part(0, int64_t(which), int64_t(which) + 1).to_host<float>();
  }
  void expect_row(const std::vector<float>& expected, int64_t t, const std::vector<float>& got, const std::string& what) const {
    ASSERT_EQ(got.size(), size_t(kVocabulary));
    ASSERT_EQ(std::memcmp(got.data(), expected.data() + t * kVocabulary, got.size() * sizeof(float)), 0) << what << ", position " << t;
  }

  std::unique_ptr<Model> model_;
  Ids sequences_[3];
};

TEST_P(OneOrder, training_passes_of_any_size) {
  const std::vector<float> whole = trained({0}, 0, 600), batch = trained({1, 0, 2}, 1, 130), two = trained({0, 1}, 0, 33),
                           one = trained({0}, 0, 1);
  ASSERT_TRUE(std::equal(batch.begin(), batch.end(), whole.begin()));
  ASSERT_TRUE(std::equal(two.begin(), two.end(), whole.begin()));
  ASSERT_TRUE(std::equal(one.begin(), one.end(), whole.begin()));
  const NoGrad evaluation;
  ASSERT_EQ(trained({0}, 0, 600), whole);
  ASSERT_EQ(trained({2, 0}, 1, 130), batch);
}

TEST_P(OneOrder, prompts_in_chunks) {
  const std::vector<float> expected = trained({0}, 0, 600);
  for (const std::vector<int64_t>& chunks :
       {std::vector<int64_t>{600}, {1, 2, 3, 4, 5, 50, 65, 400, 70}, {64, 64, 384, 1, 1, 1, 85}, {511, 1, 1, 87}, {300, 3, 290, 7}}) {
    KvCache cache = model_->make_cache(1, kContext);
    int64_t first = 0;
    for (int64_t count : chunks) {
      expect_row(expected, first + count - 1, model_->last_logits(ids(sequences_[0], first, count), cache).to_host<float>(), "chunk");
      first += count;
    }
  }
}

TEST_P(OneOrder, decoding_alone_and_in_batches) {
  std::vector<float> expected[3];
  for (int i = 0; i < 3; ++i) expected[i] = trained({i}, 0, 600);
  // Prompts of different lengths join one cache, one by one.
  KvCache cache(model_->make_pool(pages_for(kContext)), 3, kContext - 48);
  int64_t at[3] = {};
  const int64_t prompts[3] = {1, 70, 505};
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    KvCache row(cache.pool(), 1, kContext);
    row.join();
    model_->last_logits(ids(sequences_[i], 0, prompts[i]), row);
    cache.join(row.remove(0));
    at[i] = prompts[i];
    order.push_back(i);
    for (int step = 0; step < 12; ++step) {
      if (step == 6) {
        cache.pool()->grow(cache.pool()->pages() + 7);
        cache.grow(cache.capacity() + 16);
      }
      Ids newest;
      for (int s : order) newest.push_back(sequences_[s][size_t(at[s]++)]);
      const std::vector<float> logits =
          model_->last_logits(Tensor::from_host(model_->device(), {int64_t(order.size()), 1}, newest), cache).to_host<float>();
      for (size_t b = 0; b < order.size(); ++b)
        expect_row(expected[order[b]], at[order[b]] - 1,
                   {logits.begin() + std::ptrdiff_t(b) * kVocabulary, logits.begin() + std::ptrdiff_t(b + 1) * kVocabulary}, "decode");
    }
  }
  // The first is removed, the others stay in order.
  cache.remove(0);
  const std::vector<float> logits =
      model_
          ->last_logits(Tensor::from_host(model_->device(), {2, 1}, Ids{sequences_[1][size_t(at[1])], sequences_[2][size_t(at[2])]}), cache)
          .to_host<float>();
  expect_row(expected[1], at[1], {logits.begin(), logits.begin() + kVocabulary}, "without the first");
  expect_row(expected[2], at[2], {logits.begin() + kVocabulary, logits.end()}, "without the first");
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (DType dtype : {DType::f32, DType::bf16}) {
    list.push_back({"llama_grouped", Architecture::llama, 6, 2, 16, false, false, dtype});
    list.push_back({"llama_tied_narrow_heads", Architecture::llama, 4, 4, 10, true, false, dtype});
    list.push_back({"llama_lora", Architecture::llama, 4, 1, 32, true, true, dtype});
    list.push_back({"gpt2", Architecture::gpt2, 4, 4, 16, true, false, dtype});
    list.push_back({"gpt2_lora_untied", Architecture::gpt2, 2, 2, 32, false, true, dtype});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(models, OneOrder, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.name) + (info.param.dtype == DType::f32 ? "_f32" : "_bf16");
});

}  // namespace
}  // namespace weft::cpu_order
