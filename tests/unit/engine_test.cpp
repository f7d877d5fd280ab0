// The engine: a sequence has the same tokens and log-probabilities alone and in a batch whose other sequences join and leave at any time.
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
#include "weft/base/progress.h"
#include "weft/device/launch_progress.h"

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
    // The last pools have room for one sequence and for a few: others wait, and kept pages are released.
    for (const auto& [sequences, chunk, pool] :
         {std::array<int64_t, 3>{1, 5, 0}, {3, 16, 0}, {8, 1, 0}, {24, 200, 0}, {4, 30, 192}, {8, 7, 500}, {8, 64, 900}}) {
      Engine engine(*model, {.sequences = sequences, .prompt_chunk = chunk, .pool = pool, .keep = sequences != 8 || pool > 0});
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
        EXPECT_LE(engine.pages_in_use(), engine.pages());
      }
      EXPECT_EQ(engine.pages_in_use(), 0);
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

// Prompts of similar lengths that fit into one chunk are read in one step, the others in the order of calls.
TEST(Engine, ShortPromptsAreReadSideBySide) {
  const auto model = small_model();
  const std::vector<Ids> prompts{Ids(9, 1), Ids(7, 2), Ids(6, 3), Ids(3, 4), Ids(21, 5), Ids(20, 6), Ids(40, 7)};
  Engine engine(*model, {.sequences = 7, .prompt_chunk = 36});
  std::map<uint64_t, Result> results;
  const auto options = [](size_t i) { return SequenceOptions{.max_tokens = 50, .log_probabilities = i % 2 == 0}; };
  for (size_t i = 0; i < prompts.size(); ++i) engine.add(prompts[i], options(i));
  std::vector<std::vector<uint64_t>> begun;  // the sequences whose first tokens came in one step
  while (!engine.idle()) {
    const std::vector<EngineToken> tokens = engine.step();
    std::vector<uint64_t> first;
    for (const EngineToken& token : tokens)
      if (!results.contains(token.sequence)) first.push_back(token.sequence);
    if (!first.empty()) begun.push_back(first);
    take(results, tokens);
  }
  // 3 tokens would be padded to 9, and two prompts of 20 or more do not fit into 36.
  EXPECT_EQ(begun, (std::vector<std::vector<uint64_t>>{{1, 2, 3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(engine.times().prompt_tokens, 9 + 7 + 6 + 3 + 21 + 20 + 40);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(results[i + 1], alone(*model, prompts[i], options(i))) << i;
}

// A prompt waits if sharing a prefix saves half of it; a short common prefix is computed twice.
TEST(Engine, SideBySidePromptsDoNotRepeatALongBeginning) {
  const auto model = small_model();
  const auto reused = [&](const Ids& first, const Ids& second) {
    Engine engine(*model, {.sequences = 2});
    engine.add(first, {.max_tokens = 40});
    engine.add(second, {.max_tokens = 40});
    while (!engine.idle()) engine.step();
    return engine.reused_tokens();
  };
  EXPECT_EQ(reused({1, 2, 3, 4, 5, 6}, {1, 2, 3, 7, 8, 9}), 3);
  EXPECT_EQ(reused({1, 2, 3, 4, 5, 6}, {1, 2, 7, 8, 9, 10}), 0);
  EXPECT_EQ(reused({1, 2, 3}, {1, 2, 3}), 2);
}

// Padding stays within the maximum length of a sequence, so a short prompt with few new tokens is not read together with a longer one.
TEST(Engine, PaddingStaysWithinASequence) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .pool = 2 * kPagePositions});
  engine.add(Ids(60, 1), {.max_tokens = 4});
  engine.add(Ids(50, 2), {.max_tokens = 3});
  EXPECT_EQ(engine.step().size(), 1u);
  while (!engine.idle()) engine.step();
  engine.add(Ids(60, 1), {.max_tokens = 4});
  engine.add(Ids(50, 2), {.max_tokens = 10});
  EXPECT_EQ(engine.step().size(), 2u);
}

// Runs prompts one after the other in an engine; each must have the results that it has alone.
struct OneByOne {
  const Model& model;
  Engine& engine;
  std::map<uint64_t, Result> results = {};

  int64_t reused(const Ids& prompt) {
    const SequenceOptions options{.max_tokens = 6, .log_probabilities = true};
    const int64_t before = engine.reused_tokens();
    const uint64_t number = engine.add(prompt, options);
    while (!engine.idle()) take(results, engine.step());
    EXPECT_EQ(results[number], alone(model, prompt, options));
    return engine.reused_tokens() - before;
  }
};

TEST(Engine, SharedPrefixesAreNotComputedAgain) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .keep = true});
  OneByOne run{*model, engine};
  Ids chat(40, 7);
  EXPECT_EQ(run.reused(chat), 0);
  const Ids answer = run.results.rbegin()->second.ids;
  chat.insert(chat.end(), answer.begin(), answer.end());
  EXPECT_EQ(run.reused(Ids(40, 7)), 39);  // the last token is computed, for its logits
  EXPECT_EQ(run.reused({chat.begin(), chat.begin() + 20}), 19);
  chat.insert(chat.end(), {1, 2, 3});
  EXPECT_EQ(run.reused(chat), 45);  // a prompt of 40 and 5 of 6 new tokens: the last one was never read
  EXPECT_EQ(run.reused({9, 9}), 0);
  EXPECT_EQ(run.reused({8, 8}), 0);
  EXPECT_EQ(run.reused({9, 9, 9}), 2);
  EXPECT_EQ(run.reused(chat), 48);  // still there: nobody needed its page
}

// A pool of three pages: kept pages are released when a sequence needs them, from the end of the least recently used entry.
TEST(Engine, KeptPagesGiveWay) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 2, .pool = 3 * kPagePositions, .keep = true});
  OneByOne run{*model, engine};
  EXPECT_EQ(engine.pages(), 3);
  EXPECT_EQ(run.reused({5, 5, 5, 5}), 0);
  EXPECT_EQ(run.reused({6, 6, 6, 6}), 0);
  EXPECT_EQ(run.reused({5, 5, 5, 5}), 3);
  EXPECT_EQ(run.reused(Ids(80, 4)), 0);    // two pages: that of 6 gives way
  EXPECT_EQ(run.reused({5, 5, 5, 5}), 3);  // a page for the copy of what is shared: the second of 4
  EXPECT_EQ(run.reused(Ids(80, 4)), 64);
  EXPECT_EQ(run.reused({6, 6, 6, 6}), 0);  // that of 5
  EXPECT_EQ(run.reused({5, 5, 5, 5}), 0);
  EXPECT_EQ(engine.pages_in_use(), 0);
}

// Sequences of one prompt share its whole pages; each copies the last page, in which it continues.
TEST(Engine, PagesAreSharedWhileSequencesRun) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 4, .pool = 7 * kPagePositions});
  const Ids prompt(100, 3);
  std::map<uint64_t, Result> results;
  std::vector<uint64_t> numbers;
  const auto options = [](uint64_t i) {
    return SequenceOptions{.sampling = {.temperature = 1, .seed = i}, .max_tokens = 20, .log_probabilities = true};
  };
  for (uint64_t i = 0; i < 4; ++i) numbers.push_back(engine.add(prompt, options(i)));
  int64_t most = 0;
  while (!engine.idle()) {
    take(results, engine.step());
    most = std::max(most, engine.pages_in_use());
  }
  EXPECT_EQ(most, 1 + 4);  // one shared page, and one of its own for each; alone they would take eight
  EXPECT_EQ(engine.reused_tokens(), 3 * 99);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(results[numbers[i]], alone(*model, prompt, options(i))) << i;
}

// The second sequence needs one page more than the first leaves free, and waits until the first has left.
TEST(Engine, SequencesWaitForPages) {
  const auto model = small_model();
  Engine engine(*model, {.sequences = 4, .pool = 3 * kPagePositions});
  const uint64_t first = engine.add(Ids(60, 1), {.max_tokens = 20}), second = engine.add(Ids(60, 2), {.max_tokens = 20});
  engine.add({3}, {.max_tokens = 3});
  engine.step();
  engine.step();
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 2);  // in the order of calls: the short one does not pass the second
  std::map<uint64_t, Result> results;
  while (engine.running() > 0 && results[second].ids.empty()) take(results, engine.step());
  EXPECT_TRUE(results[first].finished);
  while (!engine.idle()) take(results, engine.step());
  EXPECT_EQ(results[second], alone(*model, Ids(60, 2), {.max_tokens = 20}));
}

// Stops after a number of launches.
struct StopAfter : ProgressListener {
  explicit StopAfter(int launches) : left(launches) {}
  void progress(const Work&) override {}
  void part() override {
    if (--left < 0) throw Stopped();
  }
  int left;
};

// A step that is stopped at any launch changes no sequence: the next step returns the same tokens.
TEST(Engine, AStepThatIsStoppedHasDoneNothing) {
  const auto model = small_model();
  if (model->device().stream().captures()) GTEST_SKIP() << "launches of a stream that captures are not watched";
  const std::vector<Request> all = requests(6);
  Engine engine(*model, {.sequences = 3, .prompt_chunk = 20, .pool = 700, .keep = true});
  std::map<uint64_t, Result> results;
  std::vector<uint64_t> numbers;
  for (const Request& r : all) numbers.push_back(engine.add(r.prompt, r.options));
  std::mt19937 random(3);
  while (!engine.idle()) {
    try {
      StopAfter listener(int(random() % 60));
      const Listening listening(listener);
      const LaunchProgress watch(model->device().stream());
      take(results, engine.step());
    } catch (const Stopped&) {
    }
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(results[numbers[i]], alone(*model, all[i].prompt, all[i].options)) << i;
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

// The embedding of one token is NaN: sequences with this token end with an error and are not kept; the others continue.
TEST(Engine, AnErrorEndsItsOwnSequence) {
  const auto model = small_model();
  const Tensor embedding = model->parameters().front().tensor;
  embedding.part(0, 200, 201).write(std::vector<float>(size_t(embedding.shape()[1]), NAN));
  Engine engine(*model, {.sequences = 3, .keep = true});
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
  EXPECT_EQ(message_of([&] { Engine(*model, {.sequences = 0}); }), "generate: sequences is 0, expected 1 or more");
  EXPECT_EQ(message_of([&] { Engine(*model, {.positions = 161}); }), "generate: positions is 161, expected 0 to 160 (the model's context)");
  EXPECT_EQ(message_of([&] { Engine(*model, {.pool = -1}); }),
            "generate: pool is -1, expected 0 (enough for all sequences) or more positions");
  EXPECT_EQ(message_of([&] { Engine(*model, {.pool = 100}).add(Ids(120, 1), {.max_tokens = 9}); }),
            "generate: the prompt of 120 tokens and up to 9 new ones need 3 pages, the pool has 2");
  EXPECT_TRUE(engine.idle());
}

}  // namespace
}  // namespace weft
