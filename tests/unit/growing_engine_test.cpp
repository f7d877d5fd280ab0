// An engine that outlives its sequences, as in a chat: reuse by later prompts, answers equal to those of a new engine, a growing pool, and
// stopping.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"
#include "weft/base/progress.h"
#include "weft/device/launch_progress.h"
#include "weft/generate/generator.h"

namespace weft {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Model> small_model(const std::string& family, DType dtype = DType::f32, int64_t context = 96) {
  ModelConfig c = preset(family == "gpt2" ? "shakespeare-char" : "llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = family == "gpt2" ? 4 : 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = context;
  c.initializer_range = 0.3;  // so that logits differ
  return make_model(c, *open_device(test_device(), {.threads = 2}), 3, {.dtype = dtype});
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Ids counted(int32_t n) {
  Ids ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(i * 7 % 211);
  return ids;
}

// As a chat has it: one sequence, a page more for the one that is copied.
EngineOptions chat_options(const Model& model) {
  return {.sequences = 1, .pool = model.config().max_positions + kPagePositions, .keep = true, .grows = true};
}

class Turns {
 public:
  Turns(const Model& model, GenerateOptions options) : engine_(model, chat_options(model)), generator_(model, std::move(options)) {}
  Completion operator()(const Ids& prompt, uint32_t occurrence = 0) {
    const int64_t before = engine_.reused_tokens();
    Completion answer = generator_.run(engine_, prompt, occurrence);
    reused_ = engine_.reused_tokens() - before;
    EXPECT_EQ(reused_ + generator_.times().prompt_tokens, int64_t(prompt.size()));
    return answer;
  }
  int64_t reused() const { return reused_; }  // of the last prompt
  Engine& engine() { return engine_; }

 private:
  Engine engine_;
  Generator generator_;
  int64_t reused_ = 0;
};

TEST(GrowingEngine, ReusesTheLongestCommonPrefix) {
  const auto model = small_model("llama");
  Turns turns(*model, {.max_tokens = 3});
  const Ids answer = turns(counted(20)).ids;
  EXPECT_EQ(turns.reused(), 0);
  const Ids spoken = joined(counted(20), {answer[0], answer[1]});  // the last token was not computed
  turns(joined(spoken, {7, 8, 9, 10, 11}));
  EXPECT_EQ(turns.reused(), 22);
  turns(joined(counted(10), {9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(turns.reused(), 10);
  turns({8});
  EXPECT_EQ(turns.reused(), 0);
  turns(joined(spoken, {7, 8, 1}));
  EXPECT_EQ(turns.reused(), 24);  // of two turns before
}

std::vector<float> values(const Completion& completion) {
  std::vector<float> all;
  for (const TokenLogProbability& each : completion.log_probabilities) all.push_back(each.value);
  return all;
}

TEST(GrowingEngine, OfTheSamePromptTheLastTokenIsComputedAgain) {
  const auto model = small_model("llama");
  Turns turns(*model, {.max_tokens = 5, .log_probabilities = true});
  const Completion first = turns(counted(9)), again = turns(counted(9));
  EXPECT_EQ(turns.reused(), 8);
  EXPECT_EQ(first.ids, again.ids);
  EXPECT_EQ(values(first), values(again));
}

// Prompts that share prefixes of all kinds, steps between them, over more than one segment of keys, in a pool that grows twice.
TEST(GrowingEngine, AnswersHaveTheBitsOfANewEngine) {
  WEFT_CPU_PROMISE();
  for (const char* family : {"llama", "gpt2"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      const auto model = small_model(family, dtype, 2048);
      const GenerateOptions options{.max_tokens = 4, .log_probabilities = true};
      Turns turns(*model, options);
      const int64_t pages = turns.engine().pages();
      Ids ids = counted(3);
      for (int32_t add : {1, 2, 5, 60, 300, 7, 130, 3, 1, 20, 70, 200, 400, 4}) {  // 1250 in the end
        ids = joined(ids, counted(add));
        const Completion kept = turns(ids), fresh = Turns(*model, options)(ids);
        ASSERT_EQ(kept.ids, fresh.ids) << family << " " << name(dtype) << ", " << ids.size() << " tokens";
        ASSERT_EQ(values(kept), values(fresh)) << family << " " << name(dtype) << ", " << ids.size() << " tokens";
        ids = joined(ids, kept.ids);
      }
      EXPECT_GT(turns.reused(), 1200);
      EXPECT_GE(turns.engine().pages(), 2 * pages);
    }
}

// Turns of a conversation, one of which changes an earlier one: the answers of a kept cache are those of a new one.
TEST(GrowingEngine, AnswersEqualThoseOfANewCache) {
  for (const char* family : {"llama", "gpt2"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      if (!on_cpu() && dtype == DType::bf16) continue;  // the last bits differ, and with them now and then a token
      const auto model = small_model(family, dtype);
      for (const SamplingOptions& sampling : {SamplingOptions{}, SamplingOptions{.temperature = 0.8, .top_p = 0.9, .seed = 4}}) {
        Generator generator(*model, {.sampling = sampling, .max_tokens = 8});
        Turns turns(*model, {.sampling = sampling, .max_tokens = 8});
        Ids conversation = {1, 2, 3, 4, 5};
        for (int32_t turn = 0; turn < 4; ++turn) {
          const Ids answer = turns(conversation).ids;
          EXPECT_EQ(answer, generator.run({conversation})[0].ids) << family << " " << name(dtype) << ", turn " << turn;
          EXPECT_EQ(turns.reused() > 0, turn > 0);
          if (turn == 2) conversation.erase(conversation.begin() + 7, conversation.begin() + 11);  // as a template that strips reasoning
          conversation = joined(joined(conversation, answer), {turn, 17, 18});
        }
      }
    }
}

TEST(GrowingEngine, GrowsWithTheSequence) {
  const auto model = small_model("llama", DType::f32, 2048);
  const Ids ids = counted(500);
  Generator generator(*model, {.max_tokens = 40});
  Turns turns(*model, {.max_tokens = 40});
  EXPECT_EQ(turns.engine().pages(), pages_for(512));
  const Ids answer = turns(ids).ids;
  EXPECT_EQ(turns.engine().pages(), 2 * pages_for(512));  // 512 did not hold the answer
  EXPECT_EQ(answer, generator.run({ids})[0].ids);
  const Ids next = joined(ids, joined(answer, {1, 2, 3}));
  EXPECT_EQ(turns(next).ids, generator.run({next})[0].ids);
  EXPECT_EQ(turns.reused(), 539);
  EXPECT_THROW(turns(Ids(2048, 1)), Error);
  // The whole context, and then once more beside what was kept.
  for (int32_t id : {1, 2, 3}) {
    const Ids whole(2000, id);
    EXPECT_EQ(turns(whole).ids, generator.run({whole})[0].ids);
  }
  EXPECT_EQ(turns.engine().pages(), pages_for(2048) + 1);
}

// Several sequences: a pool that grows between their steps changes none of them.
TEST(GrowingEngine, SequencesStayWhenThePoolGrows) {
  const auto model = small_model("llama", DType::f32, 2048);
  std::vector<Ids> prompts;
  for (int32_t i = 0; i < 4; ++i) prompts.push_back(joined({i}, counted(300 + 150 * i)));
  const auto expected = Generator(*model, {.max_tokens = 90}).run(prompts);
  Engine engine(*model, {.sequences = 3, .prompt_chunk = 100, .keep = true, .grows = true});
  const int64_t pages = engine.pages();
  std::map<uint64_t, size_t> index;
  std::vector<Ids> got(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) index[engine.add(prompts[i], {.max_tokens = 90})] = i;
  while (!engine.idle())
    for (const EngineToken& token : engine.step()) got[index.at(token.sequence)].push_back(token.id);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i], expected[i].ids) << i;
  EXPECT_GT(engine.pages(), pages);
  EXPECT_LE(engine.pages(), 3 * pages_for(2048));
}

TEST(GrowingEngine, RepeatedPromptsHaveDrawsOfTheirOwn) {
  const auto model = small_model("llama");
  const GenerateOptions options{.sampling = {.temperature = 1, .seed = 9}, .max_tokens = 16};
  Turns turns(*model, options);
  const auto twice = Generator(*model, options).run(std::vector<Ids>{{5, 6}, {5, 6}});
  EXPECT_EQ(turns({5, 6}, 0).ids, twice[0].ids);
  EXPECT_EQ(turns({5, 6}, 1).ids, twice[1].ids);
  EXPECT_NE(twice[0].ids, twice[1].ids);
}

TEST(GrowingEngine, AStopRequestKeepsWhatWasSaid) {
  const auto model = small_model("llama");
  std::atomic<bool> stop = false;
  const auto letter = [](int32_t id) { return Generator::TokenText{std::string(1, char('a' + id % 26))}; };
  Generator generator(*model, {.max_tokens = 20, .stop_request = &stop}, letter);
  Engine engine(*model, chat_options(*model));
  const Completion whole = generator.run(engine, {1, 2, 3});
  int tokens = 0;
  const Completion cut = generator.run(engine, {1, 2, 3}, 0, [&](const NewToken&) { stop = ++tokens == 5; });
  EXPECT_EQ(cut.reason, FinishReason::stopped);
  EXPECT_EQ(cut.ids, Ids(whole.ids.begin(), whole.ids.begin() + 5));
  EXPECT_EQ(cut.text, whole.text.substr(0, 5));
  EXPECT_TRUE(engine.idle());
  const auto batch = generator.run(std::vector<Ids>{{1, 2, 3}, {4}});  // stop is still set
  EXPECT_EQ(batch[0].reason, FinishReason::stopped);
  EXPECT_EQ(batch[1].reason, FinishReason::stopped);
  EXPECT_TRUE(batch[1].ids.empty());
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

TEST(GrowingEngine, StoppingInsideAPassLeavesThePagesWhole) {
  const auto model = small_model("llama", DType::f32, 2048);
  if (model->device().stream().captures()) GTEST_SKIP() << "launches of a stream that captures are not watched";
  Engine engine(*model, chat_options(*model));
  Generator generator(*model, {.max_tokens = 6});
  const Ids first = counted(300), second = joined(counted(250), Ids(300, 9));  // more than the first pages
  const Ids expected = generator.run({second})[0].ids;
  generator.run(engine, first);
  for (int launches : {0, 1, 2, 3, 4, 5, 7, 12, 40, 60}) {
    StopAfter listener(launches);
    const Listening listening(listener);
    const LaunchProgress watch(model->device().stream());
    const Completion cut = generator.run(engine, second);
    EXPECT_EQ(cut.reason, FinishReason::stopped) << launches;
    EXPECT_EQ(cut.ids, Ids(expected.begin(), expected.begin() + ptrdiff_t(cut.ids.size()))) << launches;
    EXPECT_TRUE(engine.idle());
    EXPECT_EQ(engine.pages_in_use(), 0);
  }
  EXPECT_EQ(generator.run(engine, second).ids, expected);
  EXPECT_EQ(generator.run(engine, joined(first, {1})).ids, generator.run({joined(first, {1})})[0].ids);
}

}  // namespace
}  // namespace weft
