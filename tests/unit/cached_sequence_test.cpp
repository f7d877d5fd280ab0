// A cache that is kept between calls: what it reuses, that answers equal those of a new cache, growth, and stopping.
#include "weft/generate/cached_sequence.h"

#include <gtest/gtest.h>

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

std::vector<float> copy_of(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

Ids counted(int32_t n) {
  Ids ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(i * 7 % 211);
  return ids;
}

TEST(CachedSequence, ReusesTheLongestCommonPrefix) {
  const auto model = small_model("llama");
  CachedSequence kept(*model);
  kept.read(counted(20));
  EXPECT_EQ(kept.reused(), 0);
  kept.step(1);
  kept.step(2);
  const Ids spoken = joined(counted(20), {1, 2});
  EXPECT_EQ(kept.ids(), spoken);
  kept.read(joined(spoken, {7, 8, 9, 10, 11}));
  EXPECT_EQ(kept.reused(), 22);
  kept.read(joined(counted(10), {9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(kept.reused(), 10);
  kept.read({8});
  EXPECT_EQ(kept.reused(), 0);
  kept.clear();
  kept.read({8});
  EXPECT_EQ(kept.reused(), 0);
}

TEST(CachedSequence, TheSamePromptIsNotComputedAgain) {
  const auto model = small_model("llama");
  CachedSequence kept(*model);
  const Ids prompt = counted(9);
  const std::vector<float> first = copy_of(kept.read(prompt)), after = copy_of(kept.step(10));
  EXPECT_EQ(copy_of(kept.read(prompt)), first);
  EXPECT_EQ(kept.reused(), 9);
  EXPECT_EQ(copy_of(kept.step(10)), after);
  kept.clear();
  EXPECT_EQ(copy_of(kept.read(prompt)), first);
}

// Prompts that share prefixes of all kinds, steps between them, over more than one segment of keys.
TEST(CachedSequence, LogitsHaveTheBitsOfANewCache) {
  WEFT_CPU_PROMISE();
  for (const char* family : {"llama", "gpt2"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      const auto model = small_model(family, dtype, 1024);
      CachedSequence kept(*model);
      Ids ids = counted(3);
      for (int32_t add : {1, 2, 5, 60, 300, 7, 130, 3, 1, 20, 70, 200, 4}) {  // 806 in the end
        const Ids more = counted(add);
        ids = joined(ids, more);
        CachedSequence fresh(*model);
        ASSERT_EQ(copy_of(kept.read(ids)), copy_of(fresh.read(ids))) << family << " " << name(dtype) << ", " << ids.size() << " tokens";
        for (int32_t id : {5, 6, 7}) {
          ASSERT_EQ(copy_of(kept.step(id)), copy_of(fresh.step(id))) << family << " " << name(dtype) << ", " << ids.size() << " tokens";
          ids.push_back(id);
        }
      }
      EXPECT_GT(kept.reused(), 800);
    }
}

// Turns of a conversation, one of which changes an earlier one: the answers of a kept cache are those of a new one.
TEST(CachedSequence, AnswersEqualThoseOfANewCache) {
  for (const char* family : {"llama", "gpt2"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      if (!on_cpu() && dtype == DType::bf16) continue;  // the last bits differ, and with them now and then a token
      const auto model = small_model(family, dtype);
      for (const SamplingOptions& sampling : {SamplingOptions{}, SamplingOptions{.temperature = 0.8, .top_p = 0.9, .seed = 4}}) {
        Generator generator(*model, {.sampling = sampling, .max_tokens = 8});
        CachedSequence kept(*model);
        Ids conversation = {1, 2, 3, 4, 5};
        for (int32_t turn = 0; turn < 4; ++turn) {
          const Ids answer = generator.run(kept, conversation).ids;
          EXPECT_EQ(answer, generator.run({conversation})[0].ids) << family << " " << name(dtype) << ", turn " << turn;
          EXPECT_EQ(kept.reused() > 0, turn > 0);
          if (turn == 2) conversation.erase(conversation.begin() + 7, conversation.begin() + 11);  // as a template that strips reasoning
          conversation = joined(joined(conversation, answer), {turn, 17, 18});
        }
      }
    }
}

TEST(CachedSequence, GrowsWithTheSequence) {
  const auto model = small_model("llama", DType::f32, 2048);
  CachedSequence kept(*model);
  const Ids ids = counted(500);
  Generator generator(*model, {.max_tokens = 40});
  const Ids answer = generator.run(kept, ids).ids;
  EXPECT_EQ(kept.capacity(), 1024);  // 512 did not hold the answer
  EXPECT_EQ(answer, generator.run({ids})[0].ids);
  EXPECT_EQ(generator.run(kept, joined(ids, joined(answer, {1, 2, 3}))).ids,
            generator.run({joined(ids, joined(answer, {1, 2, 3}))})[0].ids);
  EXPECT_THROW(kept.read(Ids(2049, 1)), Error);
}

TEST(CachedSequence, RepeatedPromptsHaveDrawsOfTheirOwn) {
  const auto model = small_model("llama");
  Generator generator(*model, {.sampling = {.temperature = 1, .seed = 9}, .max_tokens = 16});
  CachedSequence kept(*model);
  const auto twice = generator.run(std::vector<Ids>{{5, 6}, {5, 6}});
  EXPECT_EQ(generator.run(kept, {5, 6}, 0).ids, twice[0].ids);
  EXPECT_EQ(generator.run(kept, {5, 6}, 1).ids, twice[1].ids);
  EXPECT_NE(twice[0].ids, twice[1].ids);
}

TEST(CachedSequence, AStopRequestKeepsWhatWasSaid) {
  const auto model = small_model("llama");
  std::atomic<bool> stop = false;
  const auto letter = [](int32_t id) { return Generator::TokenText{std::string(1, char('a' + id % 26))}; };
  Generator generator(*model, {.max_tokens = 20, .stop_request = &stop}, letter);
  CachedSequence kept(*model);
  const Completion whole = generator.run(kept, {1, 2, 3});
  int tokens = 0;
  const Completion cut = generator.run(kept, {1, 2, 3}, 0, [&](const NewToken&) { stop = ++tokens == 5; });
  EXPECT_EQ(cut.reason, FinishReason::stopped);
  EXPECT_EQ(cut.ids, Ids(whole.ids.begin(), whole.ids.begin() + 5));
  EXPECT_EQ(cut.text, whole.text.substr(0, 5));
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

TEST(CachedSequence, StoppingInsideAPassLeavesTheCacheWhole) {
  const auto model = small_model("llama");
  if (model->device().stream().captures()) GTEST_SKIP() << "launches of a stream that captures are not watched";
  CachedSequence kept(*model);
  Generator generator(*model, {.max_tokens = 6});
  const Ids first = {1, 2, 3, 4, 5, 6}, second = {1, 2, 3, 4, 9, 9, 9};
  const Ids expected = generator.run({second})[0].ids;
  generator.run(kept, first);
  for (int launches : {0, 1, 7, 12, 40, 60}) {
    StopAfter listener(launches);
    const Listening listening(listener);
    const LaunchProgress watch(model->device().stream());
    const Completion cut = generator.run(kept, second);
    EXPECT_EQ(cut.reason, FinishReason::stopped) << launches;
    EXPECT_EQ(cut.ids, Ids(expected.begin(), expected.begin() + ptrdiff_t(cut.ids.size()))) << launches;
  }
  EXPECT_EQ(generator.run(kept, second).ids, expected);
}

}  // namespace
}  // namespace weft
