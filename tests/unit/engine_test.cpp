// The engine: a sequence has the same tokens and log-probabilities alone and among others that join and leave at any moment.
#include "weft/generate/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <random>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"

namespace weft {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Model> small_model(DType dtype = DType::f32) {
  ModelConfig c = preset("llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = 160;
  c.tie_embeddings = false;
  c.initializer_range = 0.3;  // so that logits differ
  return make_model(c, *open_device(test_device(), {.threads = 2}), 3, {.dtype = dtype});
}

struct Result {
  Ids ids;
  std::vector<uint32_t> bits;  // of the log-probabilities
  std::optional<FinishReason> finished;

  bool operator==(const Result&) const = default;
};

void take(std::map<uint64_t, Result>& results, const std::vector<EngineToken>& tokens) {
  for (const EngineToken& token : tokens) {
    Result& r = results[token.sequence];
    ASSERT_FALSE(r.finished) << "a token after the end";
    r.ids.push_back(token.id);
    r.bits.push_back(token.log_probability ? std::bit_cast<uint32_t>(token.log_probability->value) : 0);
    r.finished = token.finished;
  }
}

Result alone(const Model& model, const Ids& prompt, const SequenceOptions& options) {
  Engine engine(model, {.sequences = 1, .prompt_chunk = 1000});
  std::map<uint64_t, Result> results;
  const uint64_t number = engine.add(prompt, options);
  while (!engine.idle()) take(results, engine.step());
  return results[number];
}

struct Request {
  Ids prompt;
  SequenceOptions options;
};

std::vector<Request> requests(size_t count) {
  std::mt19937 random(7);
  std::vector<Request> all;
  for (size_t i = 0; i < count; ++i) {
    Request r;
    if (i % 4 != 0) r.prompt.assign(all[i - 1].prompt.begin(), all[i - 1].prompt.begin() + long(random() % all[i - 1].prompt.size()));
    for (size_t n = 1 + random() % 60; n > 0 && r.prompt.size() < 100; --n) r.prompt.push_back(int32_t(random() % 211));
    r.options.max_tokens = 1 + int64_t(random() % 30);
    r.options.end_ids = {int32_t(random() % 211), int32_t(random() % 211)};
    r.options.log_probabilities = i % 3 != 0;
    if (i % 2) r.options.sampling = {.temperature = 1, .top_p = 0.9, .seed = i};
    r.options.occurrence = uint32_t(i % 3);
    all.push_back(r);
  }
  return all;
}

TEST(Engine, SequencesDoNotDependOnTheOthers) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto model = small_model(dtype);
    const std::vector<Request> all = requests(24);
    std::vector<Result> expected;
    for (const Request& r : all) expected.push_back(alone(*model, r.prompt, r.options));
    for (const auto& [sequences, chunk, kept] : {std::array<int64_t, 3>{1, 5, 0}, {3, 16, 2}, {8, 1, 5}, {24, 200, 1}}) {
      Engine engine(*model, {.sequences = sequences, .prompt_chunk = chunk, .kept = kept});
      std::mt19937 random{uint32_t(sequences)};
      std::map<uint64_t, Result> results;
      std::map<uint64_t, size_t> request;
      std::vector<uint64_t> removed;
      for (size_t next = 0; next < all.size() || !engine.idle();) {
        if (next < all.size() && (engine.idle() || random() % 4 == 0)) {
          request[engine.add(all[next].prompt, all[next].options)] = next;
          ++next;
        } else if (random() % 40 == 0 && !request.empty()) {  // whatever it is doing
          removed.push_back(std::next(request.begin(), long(random() % request.size()))->first);
          engine.remove(removed.back());
        } else {
          take(results, engine.step());
        }
        EXPECT_LE(engine.running(), sequences);
      }
      for (const auto& [number, i] : request) {
        const Result& got = results[number];
        if (!got.finished && std::ranges::find(removed, number) != removed.end()) {
          ASSERT_LE(got.ids.size(), expected[i].ids.size());
          EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), expected[i].ids.begin())) << "request " << i;
        } else {
          EXPECT_EQ(got, expected[i]) << "request " << i << " with " << sequences << " at once, chunks of " << chunk;
        }
      }
    }
  }
}

TEST(Engine, PromptsAreReadBetweenSteps) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .prompt_chunk = 4});
  const uint64_t first = engine.add({1, 2}, {.max_tokens = 30});
  EXPECT_EQ(engine.step().size(), 1u);
  engine.add(Ids(40, 5), {.max_tokens = 2});
  engine.add({9}, {.max_tokens = 1});
  EXPECT_EQ(engine.waiting(), 2);
  for (int chunk = 1; chunk <= 10; ++chunk) {  // steps and chunks in turns: the first sequence goes on
    const auto tokens = engine.step();
    ASSERT_EQ(tokens.size(), 1u);
    EXPECT_EQ(tokens[0].sequence, first);
    EXPECT_EQ(engine.step().size(), chunk == 10 ? 1u : 0u);  // the last chunk gives the second sequence's first token
  }
  EXPECT_EQ(engine.running(), 2);
  EXPECT_EQ(engine.waiting(), 1);  // two places, both taken
}

TEST(Engine, SharedPrefixesAreCopied) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .kept = 2});
  const SequenceOptions options{.max_tokens = 6, .log_probabilities = true};
  std::map<uint64_t, Result> results;
  const auto run = [&](const Ids& prompt) {
    const int64_t before = engine.reused_tokens();
    const uint64_t number = engine.add(prompt, options);
    while (!engine.idle()) take(results, engine.step());
    EXPECT_EQ(results[number], alone(*model, prompt, options));
    return engine.reused_tokens() - before;
  };
  Ids chat(40, 7);
  EXPECT_EQ(run(chat), 0);
  const Ids answer = results.rbegin()->second.ids;
  chat.insert(chat.end(), answer.begin(), answer.end());
  EXPECT_EQ(run(Ids(40, 7)), 39);  // the last token is computed, for its logits
  EXPECT_EQ(run({chat.begin(), chat.begin() + 20}), 19);
  chat.insert(chat.end(), {1, 2, 3});
  EXPECT_EQ(run(chat), 45);  // a prompt of 40 and 5 of 6 new tokens: the last one was never read
  EXPECT_EQ(run({9, 9}), 0);
  EXPECT_EQ(run({8, 8}), 0);
  EXPECT_EQ(run({9, 9, 9}), 2);
  EXPECT_EQ(run({7, 7}), 0);  // two sequences are kept: the conversation is gone
}

TEST(Engine, RemovedSequencesLeaveNoTrace) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .prompt_chunk = 3});
  const uint64_t reading = engine.add(Ids(20, 3), {.max_tokens = 5}), waiting = engine.add({4}, {});
  engine.step();
  engine.remove(reading);
  engine.remove(waiting);
  engine.remove(12345);
  EXPECT_TRUE(engine.idle());
  EXPECT_TRUE(engine.step().empty());
  std::map<uint64_t, Result> results;
  const SequenceOptions options{.max_tokens = 9, .log_probabilities = true};
  const uint64_t next = engine.add({7, 8, 9}, options);
  while (!engine.idle()) take(results, engine.step());
  EXPECT_EQ(results[next], alone(*model, {7, 8, 9}, options));
}

// One token's embedding is NaN: sequences that have it end with an error, the others go on, and nothing of them is kept.
TEST(Engine, AnErrorEndsItsOwnSequence) {
  const auto model = small_model();
  const Tensor embedding = model->parameters().front().tensor;
  embedding.part(0, 200, 201).write(std::vector<float>(size_t(embedding.shape()[1]), NAN));
  Engine engine(*model, {.sequences = 3, .kept = 3});
  const SequenceOptions options{.max_tokens = 8, .log_probabilities = true};
  const uint64_t good = engine.add({1, 2, 3}, options), bad = engine.add({1, 200}, options);
  std::map<uint64_t, Result> results;
  int64_t errors = 0;
  while (!engine.idle())
    for (const EngineToken& token : engine.step()) {
      if (!token.error) {
        take(results, {token});
        continue;
      }
      EXPECT_EQ(token.sequence, bad);
      ++errors;
    }
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(results[good], alone(*model, {1, 2, 3}, options));
  EXPECT_TRUE(results[bad].ids.empty());
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Engine, ErrorsNameTheValues) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 1, .positions = 50});
  EXPECT_EQ(message_of([&] { engine.add({}, {}); }), "generate: the prompt is empty");
  EXPECT_EQ(message_of([&] { engine.add({211}, {}); }), "generate: the prompt has token 211, the vocabulary ends at 210");
  EXPECT_EQ(message_of([&] { engine.add(Ids(50, 1), {}); }),
            "generate: the prompt has 50 tokens and the room of a sequence is 50: there is no room for a new one");
  EXPECT_EQ(message_of([&] { engine.add(Ids(10, 1), {.max_tokens = 41}); }),
            "generate: the prompt of 10 tokens and 41 new ones do not fit in the room of a sequence of 50");
  EXPECT_EQ(message_of([&] { engine.add({1}, {.top_log_probabilities = 2}); }), "generate: top_log_probabilities needs log_probabilities");
  EXPECT_EQ(message_of([&] { Engine(*model, {.sequences = 0}); }), "generate: an engine for 0 sequences has no place for one");
  EXPECT_NE(message_of([&] { Engine(*model, {.positions = 161}); }).find("161"), std::string::npos);
  EXPECT_TRUE(engine.idle());
}

}  // namespace
}  // namespace weft
