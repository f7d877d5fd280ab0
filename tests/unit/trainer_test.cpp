// Whole runs: the same bits for any number of threads and any accumulation; what a run writes.
#include "weft/train/trainer.h"

#include "tests/unit/trainer_run.h"
#include "weft/train/capture.h"
#include "weft/train/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace weft {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, learns_and_leaves_everything_in_its_folder) {
  TrainConfig c = config("a");
  c.steps = 40;
  const TrainOutcome outcome = train(c);
  EXPECT_TRUE(outcome.finished);
  EXPECT_LT(outcome.evaluation->validation_loss, 3.3);
  EXPECT_TRUE(Trainer(config("eos"), {.out = quiet}).problem().model.eos_ids.empty());  // a newline ends a line, not the text
  for (const char* name : {"config.toml", "metrics.jsonl", "report.html", "checkpoints/checkpoint-0000000040.safetensors",
                           "model/config.json", "model/tokenizer.json"})
    EXPECT_TRUE(fs::exists(folder / "a" / name)) << name;
  TrainConfig back;
  read_config((folder / "a/config.toml").string(), back);
  TrainConfig resolved = c;
  resolved.packing = back.packing;  // left open
  EXPECT_EQ(back, resolved);
}

TEST_F(TrainerTest, threads_do_not_change_the_bits) {
  WEFT_CPU_PROMISE();
  for (int threads : {1, 3}) {
    TrainConfig c = config(threads == 1 ? "one" : "three");
    c.threads = threads;
    train(c);
  }
  EXPECT_EQ(weights("one"), weights("three"));
}

TEST_F(TrainerTest, accumulation_does_not_change_the_bits) {
  for (int64_t batch : {1, 2, 8}) {
    TrainConfig c = config("batch" + std::to_string(batch));
    c.batch = batch;
    c.accumulate = 8 / batch;
    train(c);
  }
  EXPECT_EQ(weights("batch1"), weights("batch2"));
  EXPECT_EQ(weights("batch1"), weights("batch8"));
}

TEST(MicroBatches, hold_as_many_whole_sequences_as_fit) {
  std::vector<TokenBatch> sequences;
  for (int32_t i = 0; i < 6; ++i) sequences.push_back({1, 3, {3 * i, 3 * i + 1, 3 * i + 2}, {i, i, kIgnored}});
  const std::pair<int64_t, int64_t> expected[] = {{1, 1}, {5, 1}, {6, 2}, {9, 3}, {17, 3}, {18, 6}, {1000, 6}};  // 4 and 5 do not divide 6
  for (const auto& [tokens, together] : expected) EXPECT_EQ(sequences_per_micro_batch(sequences, tokens), together) << tokens;
  const TokenBatch two = stacked(std::span(sequences).subspan(2, 2));
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.tokens, 3);
  EXPECT_EQ(two.ids, (std::vector<int32_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(two.targets, (std::vector<int32_t>{2, 2, kIgnored, 3, 3, kIgnored}));
  sequences.back() = {2, 2, {1, 2, 3, 4}, {5, 6, 7, 8}};  // a sequence of another shape cannot be stacked
  EXPECT_EQ(sequences_per_micro_batch(sequences, 1000), 1);
}

TEST_F(TrainerTest, another_seed_changes_the_weights) {
  train(config("a"));
  TrainConfig c = config("b");
  c.seed = 1;
  train(c);
  EXPECT_NE(weights("a"), weights("b"));
}

TEST_F(TrainerTest, a_finished_run_has_its_model) {
  const TrainConfig c = config("a");
  train(c);
  const std::string model = weights("a");
  fs::remove_all(folder / "a/model");  // as if killed after the last checkpoint
  EXPECT_TRUE(train(c, true).finished);
  EXPECT_EQ(weights("a"), model);
}

// The best model stays when the run gets worse, across interruptions; model/ is the final model.
TEST_F(TrainerTest, keeps_the_model_with_the_lowest_validation_loss) {
  TrainConfig c = config("best");
  c.steps = 20, c.keep = 1;
  const double best = train(c).evaluation->validation_loss;
  const std::string then = weights("best");
  c.steps = 28, c.learning_rate = 1, c.schedule = "constant";
  const TrainOutcome worse = train(c, true);
  ASSERT_GT(worse.evaluation->validation_loss, best);
  ASSERT_TRUE(worse.best.has_value());
  EXPECT_EQ(worse.best->step, 20);
  EXPECT_EQ(worse.best->validation_loss, best);
  EXPECT_EQ(contents(folder / "best/best/model.safetensors"), then);
  EXPECT_NE(weights("best"), then);
  EXPECT_EQ(contents(folder / "best/best/tokenizer.json"), contents(folder / "best/model/tokenizer.json"));
  EXPECT_EQ(CheckpointFolder(c.out + "/checkpoints", 1, {}).paths().size(), 1u);
  EXPECT_NE(contents(folder / "best/report.html").find("best model"), std::string::npos);
  c.keep_best = false, c.steps = 30;
  EXPECT_FALSE(train(c, true).best.has_value());  // that of the steps before need not be the best of the run
  EXPECT_EQ(contents(folder / "best/report.html").find("best model"), std::string::npos);
  c = config("none");
  c.keep_best = false;
  EXPECT_FALSE(train(c).best.has_value());
  EXPECT_FALSE(fs::exists(folder / "none/best"));
}

TEST_F(TrainerTest, no_best_model_without_held_out_data) {
  TrainConfig c = config("all");
  c.validation = 0;
  EXPECT_FALSE(train(c).best.has_value());
  EXPECT_FALSE(fs::exists(folder / "all/best"));
  EXPECT_EQ(contents(folder / "all/report.html").find("perplexity"), std::string::npos);
}

TEST_F(TrainerTest, errors_name_the_obstacle) {
  train(config("a"));
  EXPECT_THROW(train(config("a")), Error);  // the folder has a run
  TrainConfig c = config("a");
  c.width = 64;
  const std::string refused = message_of([&] { train(c, true); });
  EXPECT_NE(refused.find("width is 64, but the run in "), std::string::npos) << refused;  // another model
  c = config("a");
  c.steps = 10;
  EXPECT_EQ(train(c, true).step, 10);  // more steps are fine
  c.steps = 9;
  EXPECT_THROW(train(c, true), Error);  // fewer steps than already done
  c.steps = 10;
  {
    const Trainer running(c, {.resume = true, .out = quiet});
    EXPECT_THROW(train(c, true), Error);  // another process is writing there
  }
  const std::string text = contents(folder / "text.txt");
  fs::rename(folder / "text.txt", folder / "moved.txt");
  c.data = (folder / "moved.txt").string();
  EXPECT_NO_THROW(train(c, true));  // the same data under another path
  c.data = (folder / "text.txt").string();
  std::ofstream(folder / "text.txt") << text << text;
  EXPECT_THROW(train(c, true), Error);  // other data of the same characters
  std::ofstream(folder / "text.txt") << std::string(4000, 'x');
  EXPECT_THROW(train(c, true), Error);  // other data
}

// With validation data nothing of the data is held out: a run that gets or loses it would train on other sequences.
TEST_F(TrainerTest, validation_data_is_neither_added_nor_taken_away) {
  std::ofstream(folder / "held.txt") << contents(folder / "text.txt").substr(0, 600);
  const std::string held = (folder / "held.txt").string();
  for (const std::string& first : {std::string(), held}) {
    TrainConfig c = config(first.empty() ? "adds" : "loses");
    c.vocabulary = "bytes";
    c.validation_data = first;
    train(c);
    c.steps = 9;
    c.validation_data = first.empty() ? held : "";
    const std::string refused = message_of([&] { train(c, true); });
    EXPECT_NE(refused.find("it would train on other sequences"), std::string::npos) << refused;
    EXPECT_NE(refused.find("held out " + std::string(first.empty() ? "0.05 of its data, not 0" : "0 of its data, not 0.05")),
              std::string::npos)
        << refused;
    c.validation_data = first;
    EXPECT_EQ(train(c, true).step, 9);
  }
}

TEST_F(TrainerTest, prompt_is_checked_before_the_first_step) {
  for (const std::string& prompt : {std::string("no % in the text"), std::string(2000, 'l')}) {
    TrainConfig c = config("prompt");
    c.prompt = prompt;
    EXPECT_THROW(Trainer(c, {.out = quiet}), Error) << prompt;
    EXPECT_FALSE(fs::exists(c.out));
  }
  TrainConfig c = config("short");
  c.sequence = 1;
  EXPECT_NO_THROW(train(c));
}

TEST_F(TrainerTest, a_short_run_has_room_for_its_decay) {
  TrainConfig c;
  c.schedule = "wsd", c.steps = 20, c.learning_rate = 1;  // with a default warm-up of 50
  EXPECT_EQ(learning_rate(make_schedule(c), 16), 1);
  EXPECT_DOUBLE_EQ(learning_rate(make_schedule(c), 20), c.final_fraction);
  c.decay = 21;
  EXPECT_THROW(make_schedule(c), Error);
}

TEST_F(TrainerTest, default_folder_is_named_after_model_and_data) {
  TrainConfig c;
  c.data = "some/corpus/";
  EXPECT_EQ(resolved(c).out, "runs/llama-tiny-corpus");
  c.data = ".";
  EXPECT_EQ(resolved(c).out, "runs/llama-tiny-" + fs::current_path().stem().string());
  c.data = "a.b/book.txt";
  c.model = "models/small/";
  EXPECT_EQ(resolved(c).out, "runs/small-book");
}

// Fine-tunes an exported folder: vocabulary and sizes stay, the loss goes down.
TEST_F(TrainerTest, fine_tunes_a_folder) {
  TrainConfig c = config("first");
  c.steps = 30;
  const double first = train(c).evaluation->validation_loss;
  c = config("second");
  c.width = c.layers = c.heads = c.ffn = 0;
  c.model = (folder / "first/model").string();
  c.steps = 30;
  EXPECT_LT(train(c).evaluation->validation_loss, first);
  EXPECT_EQ(contents(folder / "first/model/tokenizer.json"), contents(folder / "second/model/tokenizer.json"));
  EXPECT_NE(weights("first"), weights("second"));
  c.out = (folder / "third").string();
  c.width = 64;
  EXPECT_THROW(train(c), Error);  // its sizes cannot be changed
}

TEST_F(TrainerTest, the_pool_does_not_grow) {
  TrainConfig c = config("long");
  c.steps = 30;
  Trainer trainer(c, {.out = quiet});
  trainer.run();
  const PoolStats stats = trainer.model().device().pool().stats();
  for (MemoryUse use : {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations, MemoryUse::workspace})
    EXPECT_EQ(stats.of(use).high_water, trainer.plan().memory.of(use).high_water) << name(use);
}

}  // namespace
}  // namespace weft
