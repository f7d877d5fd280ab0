// Generation with small random models: independent of the batch, where it ends, and its memory.
#include "weft/generate/generator.h"

#include <gtest/gtest.h>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/backends/open.h"

namespace weft {
namespace {

using Ids = std::vector<int32_t>;

ModelConfig small(const std::string& family) {
  ModelConfig c = preset(family == "gpt2" ? "shakespeare-char" : "llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = family == "gpt2" ? 4 : 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = 96;
  c.initializer_range = 0.3;  // so that logits differ
  if (family == "qwen3") c.architecture = Architecture::qwen3;
  c.qk_norm = family == "qwen3";
  return c;
}

std::unique_ptr<Model> small_model(const std::string& family, int threads = 2, DType dtype = DType::f32) {
  return make_model(small(family), *open_device(test_device(), {.threads = threads}), 3, {.dtype = dtype});
}

const std::vector<Ids> kPrompts = {{5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {17, 4}, {100, 90, 80, 70}, {9, 9, 9, 9, 9, 9}, {210, 0}};

std::vector<Ids> ids_of(const std::vector<Completion>& completions) {
  std::vector<Ids> ids;
  for (const Completion& c : completions) ids.push_back(c.ids);
  return ids;
}

class Families : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(models, Families, testing::Values("llama", "qwen3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// Logits of one sequence alone and in a batch are bitwise equal: the basis of Generator's guarantee.
TEST_P(Families, BatchedStepsAreBitwiseEqualToSingleOnes) {
  WEFT_CPU_PROMISE();
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto model = small_model(GetParam(), 2, dtype);
    Device& device = model->device();
    for (size_t together : {2, 3, 4}) {
      KvCache cache(model->make_pool(int64_t(together)), int64_t(together), 32), row(cache.pool(), 1, 32);
      std::vector<std::vector<float>> alone;
      for (size_t b = 0; b < together; ++b) {
        const Tensor prompt = Tensor::from_host(device, {1, int64_t(kPrompts[b].size())}, kPrompts[b]);
        KvCache own = model->make_cache(1, 32);
        row.join();
        model->last_logits(prompt, row);
        cache.join(row.remove(0));
        model->last_logits(prompt, own);
        alone.push_back(model->last_logits(Tensor::from_host(device, {1, 1}, Ids{int32_t(b)}), own).to_host<float>());
      }
      Ids next;
      for (size_t b = 0; b < together; ++b) next.push_back(int32_t(b));
      const auto logits = model->last_logits(Tensor::from_host(device, {int64_t(together), 1}, next), cache).to_host<float>();
      for (size_t b = 0; b < together; ++b)
        EXPECT_EQ(std::vector<float>(logits.begin() + int64_t(b) * 211, logits.begin() + int64_t(b + 1) * 211), alone[b])
            << "sequence " << b << " of " << together;
    }
  }
}

TEST_P(Families, OutputDoesNotDependOnBatchOrThreads) {
  WEFT_CPU_PROMISE();
  const GenerateOptions options{.sampling = {.temperature = 0.9, .top_p = 0.95, .repetition_penalty = 1.2, .seed = 6}, .max_tokens = 20};
  const auto model = small_model(GetParam());
  std::vector<Ids> alone;
  for (const Ids& prompt : kPrompts) alone.push_back(Generator(*model, options).run({prompt})[0].ids);
  for (int threads : {1, 2, 3})
    for (int64_t batch : {1, 2, 4}) {
      GenerateOptions together = options;
      together.batch = batch;
      const auto other = small_model(GetParam(), threads);
      EXPECT_EQ(ids_of(Generator(*other, together).run(kPrompts)), alone) << batch << " together on " << threads << " threads";
    }
  const auto reversed = ids_of(Generator(*model, options).run({kPrompts.rbegin(), kPrompts.rend()}));
  EXPECT_EQ(std::vector<Ids>(reversed.rbegin(), reversed.rend()), alone);
}

// Compares decoding with a cache to recomputing without one, at every position.
TEST_P(Families, GreedyEqualsRecomputing) {
  const auto model = small_model(GetParam());
  for (const Ids& prompt : kPrompts) {
    Ids ids = prompt;
    for (int i = 0; i < 12; ++i) {
      KvCache fresh = model->make_cache(1, 96);
      const auto logits = model->last_logits(Tensor::from_host(model->device(), {1, int64_t(ids.size())}, ids), fresh).to_host<float>();
      ids.push_back(int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    EXPECT_EQ(Generator(*model, {.max_tokens = 12}).run({prompt})[0].ids, Ids(ids.begin() + int64_t(prompt.size()), ids.end()));
  }
}

TEST(Generator, SeedsAndRepeatedPromptsGiveOtherText) {
  const auto model = small_model("llama");
  const auto sampled = [&](uint64_t seed, const std::vector<Ids>& prompts) {
    return ids_of(Generator(*model, {.sampling = {.temperature = 1, .seed = seed}, .max_tokens = 16}).run(prompts));
  };
  const auto twice = sampled(1, {kPrompts[0], kPrompts[0]});
  EXPECT_NE(twice[0], twice[1]);
  EXPECT_EQ(sampled(1, {kPrompts[0]})[0], twice[0]);
  EXPECT_NE(sampled(2, {kPrompts[0]})[0], twice[0]);
}

// Random numbers depend on the prompt's ids: if they were shared, two prompts with the same logits would continue alike.
TEST(Generator, PromptsHaveTheirOwnRandomNumbers) {
  ModelConfig config = small("llama");
  config.initializer_range = 0;  // every token equally likely, whatever came before
  const auto model = make_model(config, *open_device(test_device()), 3);
  const GenerateOptions options{.sampling = {.temperature = 1, .seed = 4}, .max_tokens = 12};
  const auto both = ids_of(Generator(*model, options).run({{1, 2, 3}, {3, 2, 1}}));
  EXPECT_NE(both[0], both[1]);
  EXPECT_EQ(ids_of(Generator(*model, options).run({{3, 2, 1}, {7, 7, 7}, {1, 2, 3}})),
            (std::vector<Ids>{both[1], ids_of(Generator(*model, options).run({{7, 7, 7}}))[0], both[0]}));
}

// A special token is not part of the text, but a stop string may spell it.
TEST(Generator, StopsAtASpecialToken) {
  const auto model = small_model("llama");
  const Ids free = Generator(*model, {.max_tokens = 8}).run({kPrompts[3]})[0].ids;
  const auto texts = [&](int32_t id) {
    return id == free[3] ? Generator::TokenText{"<|im_end|>", /*hidden=*/true} : Generator::TokenText{join(id, " ")};
  };
  const Completion stopped = Generator(*model, {.max_tokens = 8, .stop = {"<|im_end|>"}}, texts).run({kPrompts[3]})[0];
  EXPECT_EQ(stopped.reason, FinishReason::stop);
  EXPECT_EQ(stopped.ids, Ids(free.begin(), std::find(free.begin(), free.end(), free[3]) + 1));
  EXPECT_EQ(stopped.text.find("im_end"), std::string::npos);
}

TEST(Generator, EndsAtEosWhichIsTheLastId) {
  const auto model = small_model("gpt2");
  const Ids free = Generator(*model, {.max_tokens = 10}).run({kPrompts[1]})[0].ids;
  const auto end = std::find(free.begin() + 1, free.end(), free[4]);
  const Completion ended = Generator(*model, {.max_tokens = 10, .eos_ids = {-7, *end}}).run({kPrompts[1]})[0];
  EXPECT_EQ(ended.ids, Ids(free.begin(), std::find(free.begin(), free.end(), *end) + 1));
  EXPECT_EQ(ended.reason, FinishReason::eos);
}

// Token t reads "<t>": a stop string that starts in one token and ends in the next.
TEST(Generator, StopsAtTextAndStreamsAllButTheStop) {
  const auto model = small_model("llama");
  const auto bytes = [](int32_t id) { return join("<", id, ">"); };
  const auto texts = [&](int32_t id) { return Generator::TokenText{bytes(id)}; };
  const Completion whole = Generator(*model, {.max_tokens = 8}, texts).run({kPrompts[3]})[0];
  EXPECT_EQ(whole.reason, FinishReason::length);
  const std::string third = bytes(whole.ids[2]), stop = third.substr(1) + "<";
  std::string streamed;
  int64_t calls = 0;
  bool last = false;
  Generator generator(*model, {.max_tokens = 8, .stop = {"not there", stop}}, texts);
  const Completion stopped = generator.run({kPrompts[3]}, [&](const NewToken& token) {
    streamed += token.text;
    EXPECT_EQ(token.id, whole.ids[size_t(calls++)]);
    EXPECT_FALSE(last);
    last = token.last;
  })[0];
  EXPECT_EQ(stopped.reason, FinishReason::stop);
  EXPECT_TRUE(last);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(streamed, stopped.text);
  EXPECT_EQ(stopped.ids.size(), size_t(calls));
  EXPECT_EQ(generator.times().prompt_tokens, 4);
  EXPECT_EQ(generator.times().step_tokens, calls - 1);
}

TEST(Generator, FillsTheContextWithoutALimit) {
  const auto model = small_model("gpt2");
  EXPECT_EQ(Generator(*model, {}).run({Ids(90, 1)})[0].ids.size(), 6u);
  EXPECT_TRUE(Generator(*model, {}).run({}).empty());
}

// Steps take no memory from the system, and keep none.
TEST(Generator, StepsAllocateNothing) {
  const auto model = small_model("llama");
  std::vector<int64_t> reserved, in_use;
  Generator(*model, {.sampling = {.temperature = 1}, .max_tokens = 60}).run({kPrompts[0], kPrompts[1]}, [&](const NewToken&) {
    reserved.push_back(model->device().pool().stats().reserved);
    in_use.push_back(model->device().pool().stats().in_use);
  });
  for (size_t i = 8; i + 1 < reserved.size(); ++i) {  // before the last token one sequence has left, and the other took its row
    EXPECT_EQ(reserved[i], reserved[7]);
    EXPECT_EQ(in_use[i], in_use[7]);
  }
}

TEST(Generator, ErrorsNameTheValues) {
  const auto model = small_model("llama");
  const auto says = [&](const GenerateOptions& options, const Ids& prompt) {
    return message_of([&] { Generator(*model, options).run({{1}, prompt}); });
  };
  EXPECT_EQ(says({.max_tokens = 1}, {}), "generate: prompt 1 is empty");
  EXPECT_EQ(says({.max_tokens = 1}, {5, 211}), "generate: prompt 1 has token 211, the vocabulary ends at 210");
  EXPECT_EQ(says({.max_tokens = 1}, {-3}), "generate: prompt 1 has token -3, the vocabulary ends at 210");
  EXPECT_EQ(says({.max_tokens = 1}, Ids(96, 1)),
            "generate: prompt 1 has 96 tokens and the model's context is 96: there is no room for a new one");
  EXPECT_EQ(says({.max_tokens = 50}, Ids(60, 1)),
            "generate: prompt 1 of 60 tokens and 50 new ones do not fit in the model's context of 96");
  EXPECT_EQ(says({.max_tokens = -1}, {1}), "generate: max_tokens is -1, expected 0 (as many as fit) or more");
  EXPECT_EQ(says({.batch = 0}, {1}), "generate: batch is 0, expected 1 or more");
  EXPECT_EQ(says({.stop = {"x"}}, {1}), "generate: stop strings need a tokenizer");
  EXPECT_EQ(says({.sampling = {.temperature = -1}}, {1}), "sampler: temperature is -1, expected 0 (greedy) or more");
}

TEST(KvCache, SequencesAreAddedAndRemoved) {
  const auto model = small_model("llama");
  KvCache cache = model->make_cache(2, 8), other = model->make_cache(1, 8);
  EXPECT_EQ(message_of([&] { cache.join(); }), "kv_cache: is full: it has room for 2 sequences");
  cache.remove(1);
  EXPECT_EQ(message_of([&] { cache.join(other.remove(0)); }), "kv_cache: accepts only sequences of its own pool");
  cache.join();
  EXPECT_EQ(cache.batch(), 2);
  EXPECT_EQ(message_of([&] { cache.remove(2); }), "kv_cache: holds 2 sequences, there is no number 2");
}

TEST(KvCache, APassIsKeptWhenCommitted) {
  const auto model = small_model("llama");
  KvCache cache = model->make_cache(1, 4);
  const Tensor ids = Tensor::from_host(model->device(), {1, 2}, Ids{1, 2});
  std::vector<float> first;
  {
    KvPass pass(cache, 2);
    first = model->last_logits(ids, pass).to_host<float>();
    EXPECT_EQ(message_of([&] { KvPass(cache, 1); }), "kv_cache: a pass is open: commit it or let it end first");
    EXPECT_EQ(message_of([&] { cache.truncate(0); }), "kv_cache: a pass is open: commit it or let it end first");
  }
  EXPECT_TRUE(cache.empty());  // no commit
  {
    KvPass pass(cache, 2);
    EXPECT_EQ(model->last_logits(ids, pass).to_host<float>(), first);
    EXPECT_EQ(message_of([&] { pass.commit({3}); }), "kv_cache: cannot keep 3 of 2 new positions");
    pass.commit({1});
    EXPECT_EQ(message_of([&] { pass.commit(); }), "kv_cache: this pass is committed already");
  }
  EXPECT_EQ(cache.lengths(), std::vector<int64_t>{1});
  EXPECT_EQ(message_of([&] { KvPass(cache, 4); }), "kv_cache: has room for 4 positions and holds 1; 4 more do not fit");
  KvPass pass(cache, 3);
  EXPECT_EQ(pass.tokens(), 3);
}

}  // namespace
}  // namespace weft
