// The memory plan equals what a run then allocates, by use; and a long run needs no more than a short one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/sanitizer.h"
#include "tests/unit/test_device.h"
#include "weft/base/error.h"
#include "weft/train/trainer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr MemoryUse kUses[] = {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations,
                               MemoryUse::workspace};

constexpr int64_t kPage = int64_t(2) << 20;

const uint32_t kDraws = std::getenv("WEFT_DRAWS") ? uint32_t(std::atoi(std::getenv("WEFT_DRAWS"))) : 30;  // more for a longer test

class TrainingMemory : public testing::Test {
 protected:
  TrainingMemory() {
    fs::create_directories(folder);
    std::ofstream text(folder / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * i << " of a text\n";
  }
  ~TrainingMemory() override {
    std::fclose(quiet);
    fs::remove_all(folder);
  }
  TrainConfig config() {
    TrainConfig c;
    c.device = test_device();
    c.data = (folder / "text.txt").string();
    c.cache = (folder / "cache").string();
    c.out = (folder / std::to_string(runs++)).string();
    c.width = 32, c.layers = 3, c.heads = 2, c.ffn = 48, c.sequence = 40;
    c.steps = 3, c.batch = 2, c.warmup = 1, c.threads = 2;
    c.learning_rate = 1e-4;
    c.sample_tokens = 5, c.evaluate_units = 1;
    return c;
  }
  PoolStats run(const TrainConfig& c) {
    Trainer trainer(c, {.out = quiet});
    planned = trainer.plan().memory;
    trainer.run();
    return trainer.model().device().pool().stats();
  }
  void expect_planned(const TrainConfig& c, const std::string& what) {
    const PoolStats measured = run(c);
    const auto near = [&](int64_t is, int64_t said, std::string_view name) {
      EXPECT_LE(std::abs(double(is - said)), 0.02 * double(said)) << what << ", " << name << ": planned " << said << ", took " << is;
    };
    for (MemoryUse use : kUses) near(measured.of(use).high_water, planned.of(use).high_water, name(use));
    near(measured.high_water, planned.high_water, "all together");
    // Includes cached blocks; how small ones share pages depends on what existed while weights were loaded.
    EXPECT_LE(std::abs(double(measured.held_high_water - planned.held_high_water)), 0.02 * double(planned.held_high_water) + double(kPage))
        << what << ", held: planned " << planned.held_high_water << ", took " << measured.held_high_water;
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_memory_" + std::to_string(::getpid()));
  std::FILE* quiet = std::tmpfile();
  int runs = 0;
  PoolStats planned;
};

TEST_F(TrainingMemory, plan_equals_the_memory_of_a_run) {
  for (const char* optimizer : {"adamw", "sgd", "lion", "muon"})
    for (const char* dtype : {"f32", "bf16"})
      for (int64_t accumulate : {1, 3})
        for (bool recompute : {false, true}) {
          TrainConfig c = config();
          c.optimizer = optimizer, c.dtype = dtype, c.accumulate = accumulate, c.recompute = recompute;
          expect_planned(c, join(optimizer, " ", dtype, " x", accumulate, recompute ? " recomputed" : ""));
        }
}

TEST_F(TrainingMemory, plan_holds_for_other_models_and_data) {
  TrainConfig c = config();
  c.data = "sums", c.sums_rows = 32, c.sequence = 0;
  expect_planned(c, "sums");
  c = config();
  c.dropout = 0.1;
  expect_planned(c, "dropout");
  c = config();
  c.model = "gpt2-124m";
  expect_planned(c, "gpt2");
  for (int64_t threads : {1, 3}) {
    c = config();
    c.threads = threads;
    expect_planned(c, join(threads, " threads"));
  }
}

// Random settings, seeded: combinations that nobody thought of.
class Drawn {
 public:
  explicit Drawn(uint32_t seed) : chance_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[chance_() % values.size()];
  }
  bool often(uint32_t of_ten) { return chance_() % 10 < of_ten; }

 private:
  std::mt19937 chance_;
};

void draw_training(Drawn& draw, TrainConfig& c) {
  c.optimizer = draw.one_of<const char*>({"adamw", "sgd", "lion", "muon"});
  c.momentum = c.optimizer == "sgd" && draw.often(3) ? 0 : 0.9;
  c.dtype = draw.one_of<const char*>({"f32", "bf16"});
  c.batch = draw.one_of<int64_t>({1, 2, 3, 5}), c.accumulate = draw.one_of<int64_t>({1, 2, 3});
  c.pass_tokens = draw.one_of<int64_t>({1, 50, 200, 2048});
  c.recompute = draw.often(4);
  c.dropout = draw.one_of({0.0, 0.2});
  c.clip = draw.one_of({0.0, 1.0});
  c.threads = draw.one_of<int64_t>({1, 2, 3});
  c.evaluate_units = draw.one_of<int64_t>({0, 1, 3});
  c.sample_tokens = draw.one_of<int64_t>({0, 5, 200});
}

void draw_model(Drawn& draw, TrainConfig& c) {
  c.model = draw.one_of<const char*>({"llama-tiny", "gpt2-124m", "shakespeare-char", "smollm2-135m"});
  c.layers = draw.one_of<int64_t>({1, 2, 5}), c.heads = draw.one_of<int64_t>({1, 2, 4}),
  c.width = c.heads * draw.one_of<int64_t>({8, 16, 34});
  c.ffn = draw.one_of<int64_t>({16, 40, 150});
  c.kv_heads = c.model != "gpt2-124m" && c.model != "shakespeare-char" && draw.often(5) ? 1 : 0;
}

TEST_F(TrainingMemory, plan_holds_for_random_settings) {
  TrainConfig base = config();
  base.vocabulary = "bytes", base.context = 256;  // for longer sequences than its own
  run(base);
  for (uint32_t seed = 0; seed < kDraws; ++seed) {
    Drawn draw(seed);
    TrainConfig c = config();
    draw_training(draw, c);
    if (draw.often(3)) {
      c.layers = c.width = c.heads = c.ffn = 0;
      c.model = base.out + "/model";
      c.lora_rank = draw.one_of<int64_t>({0, 1, 4});
      if (c.lora_rank > 0)
        c.lora_targets = draw.one_of<const char*>({"", "all-linear", "o_proj,down_proj"}), c.lora_dropout = draw.one_of({0.0, 0.1});
    } else {
      draw_model(draw, c);
      c.vocabulary = draw.one_of<const char*>({"characters", "bytes"});
    }
    c.sequence = draw.one_of<int64_t>({1, 7, 40, 130});
    if (c.model[0] != '/' && draw.often(3))
      c.data = "sums", c.sequence = 0, c.vocabulary = "characters", c.sums_rows = draw.one_of<int64_t>({1, 20, 300});
    expect_planned(c, join("seed ", seed, ":\n", to_toml(c)));
  }
}

// Workspace depends on how many tokens each expert gets: it leaves few cached blocks, and none that one expert with all tokens would not.
TEST_F(TrainingMemory, a_mixture_holds_no_more_than_planned) {
  for (const char* dtype : {"f32", "bf16"}) {
    TrainConfig c = config();
    c.model = "mixtral-8x7b", c.kv_heads = 1, c.width = 128, c.ffn = 256, c.layers = 2, c.vocabulary = "bytes";
    c.sequence = 256, c.batch = 4, c.steps = 6, c.dtype = dtype;
    const PoolStats measured = run(c);
    EXPECT_LE(measured.held_high_water, int64_t(1.02 * double(planned.held_high_water)) + kPage) << dtype;
    EXPECT_LE(measured.high_water, int64_t(1.02 * double(planned.high_water))) << dtype;
  }
}

// Advice that a run already follows, or cannot follow, is not given.
TEST_F(TrainingMemory, advice_is_applicable) {
  TrainConfig c = config();
  const auto advice = [&](MemoryUse most) {
    Plan plan;
    plan.memory.held_high_water = 1000;
    plan.memory.uses[size_t(most)].at_peak = 900;
    try {
      check_fits(plan, c, {.total = 500, .free = 500, .in_use = 0, .high_water = 0});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it fits");
  };
  EXPECT_NE(advice(MemoryUse::activations).find("try --recompute, --dtype bf16"), std::string::npos);
  EXPECT_EQ(advice(MemoryUse::weights).find("bf16"), std::string::npos);         // its master copies need more
  EXPECT_EQ(advice(MemoryUse::weights).find("--lora-rank"), std::string::npos);  // only for a folder
  EXPECT_NE(advice(MemoryUse::optimizer).find("--optimizer lion"), std::string::npos);
  c.recompute = true, c.dtype = "bf16", c.optimizer = "lion", c.model = folder.string();
  EXPECT_EQ(advice(MemoryUse::activations).find("--recompute"), std::string::npos);
  EXPECT_NE(advice(MemoryUse::weights).find("try --dtype f32, which needs no master copy of them, --lora-rank 8, or a smaller model"),
            std::string::npos);
  EXPECT_NE(advice(MemoryUse::optimizer).find("--lora-rank 8, or --optimizer sgd"), std::string::npos);
}

TEST_F(TrainingMemory, recompute_and_bf16_need_less) {
  TrainConfig c = config();
  c.layers = 8, c.sequence = 128;
  const PoolStats whole = run(c);
  c.out = (folder / "recomputed").string();
  c.recompute = true;
  const PoolStats again = run(c);
  EXPECT_LT(again.of(MemoryUse::activations).high_water, whole.of(MemoryUse::activations).high_water / 2);
  c.out = (folder / "bf16").string();
  c.recompute = false, c.dtype = "bf16";
  EXPECT_LT(run(c).of(MemoryUse::activations).high_water, 0.7 * double(whole.of(MemoryUse::activations).high_water));
}

// Every sum takes a page of the cache while it is answered: 3 KiB a position here, 192 KiB a sum.
TEST_F(TrainingMemory, evaluating_sums_needs_a_cache_for_some_of_them) {
  TrainConfig c = config();
  c.data = "sums", c.sums_rows = 8, c.sequence = 0, c.width = 128, c.batch = 1;
  const int64_t planned = Trainer(c, {.out = quiet}).plan().memory.of(MemoryUse::activations).high_water;
  EXPECT_LT(planned, int64_t(32) << 20);
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_F(TrainingMemory, ten_thousand_steps_need_no_more_than_twenty) {
  const auto tiny = [&](int64_t steps) {
    TrainConfig c = config();
    c.layers = 1, c.width = 16, c.ffn = 16, c.sequence = 8, c.batch = 1, c.threads = 1;
    c.steps = steps;
    c.evaluate_every = 2000, c.save_every = 2000, c.sample_every = 2000;
    return c;
  };
  const PoolStats brief = run(tiny(20));
  const int64_t before = resident_bytes();
  const PoolStats lasting = run(tiny(10000));
  EXPECT_EQ(lasting.high_water, brief.high_water);
  EXPECT_EQ(lasting.reserved, brief.reserved);
  EXPECT_EQ(lasting.in_use, brief.in_use);
  EXPECT_EQ(lasting.live, brief.live);
  if (kSanitized) GTEST_SKIP() << "the pool's figures are equal; the sanitizer's own memory counts in the resident set";
  EXPECT_LT(resident_bytes() - before, int64_t(16) << 20);  // the run's own history is about 2 MiB
}

}  // namespace
}  // namespace weft
