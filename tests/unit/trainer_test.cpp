// Whole runs: the same bits whatever the threads, the accumulation and the interruptions.
#include "weft/train/trainer.h"

#include "tests/unit/training_run.h"
#include "weft/train/capture.h"
#include "weft/train/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace weft {
namespace {

namespace fs = std::filesystem;

class TrainerTest : public TrainingRun {
 protected:
  TrainConfig config(const std::string& out) const {
    TrainConfig c = config_in(out);
    c.width = 32, c.layers = 2, c.heads = 2, c.ffn = 48;
    c.sequence = 24;
    c.steps = 8;
    c.learning_rate = 1e-3;
    c.batch = 4;
    c.pass_tokens = 60;  // two units
    c.warmup = 2;
    c.save_every = 3;
    c.evaluate_every = 4;
    c.sample_tokens = 5;
    return c;
  }

  using TrainingRun::train;
  TrainOutcome train(const TrainConfig& c, StopWhen& listener) {
    const Listening listening(listener);
    return train(c, false, &listener.stop);
  }

  struct Stop {
    bool finished;
    int64_t moments;  // reports and launches that there were
  };
  // A run that is stopped at this moment; 0: never.
  Stop stopped_at(const TrainConfig& c, int64_t moment, bool resume = false) {
    StopWhen listener([](const Work&) { return false; });
    listener.moment = moment;
    const Listening listening(listener);
    try {
      return {train(c, resume, &listener.stop).finished, listener.moments};
    } catch (const Stopped&) {  // before the first step
      return {false, listener.moments};
    }
  }

  // The lines of metrics.jsonl that have such a field.
  static std::vector<std::string> records(const std::string& out, const std::string& field) {
    std::vector<std::string> found;
    std::ifstream file(out + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (line.find("\"" + field + "\"") != line.npos) found.push_back(line);
    return found;
  }
  static std::vector<std::string> checkpoints(const std::string& out) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out + "/checkpoints")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

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
  EXPECT_EQ(back, c);
}

TEST_F(TrainerTest, threads_do_not_change_a_bit) {
  WEFT_CPU_PROMISE();
  for (int threads : {1, 3}) {
    TrainConfig c = config(threads == 1 ? "one" : "three");
    c.threads = threads;
    train(c);
  }
  EXPECT_EQ(weights("one"), weights("three"));
}

TEST_F(TrainerTest, accumulation_does_not_change_a_bit) {
  for (int64_t batch : {1, 2, 8}) {
    TrainConfig c = config("batch" + std::to_string(batch));
    c.batch = batch;
    c.accumulate = 8 / batch;
    train(c);
  }
  EXPECT_EQ(weights("batch1"), weights("batch2"));
  EXPECT_EQ(weights("batch1"), weights("batch8"));
}

TEST(Passes, are_of_as_many_whole_units_as_there_is_room_for) {
  std::vector<Unit> units;
  for (int32_t i = 0; i < 6; ++i) units.push_back({1, 3, {3 * i, 3 * i + 1, 3 * i + 2}, {i, i, kIgnored}});
  const std::pair<int64_t, int64_t> expected[] = {{1, 1},  {5, 1},  {6, 2},   {9, 3},
                                                  {17, 3}, {18, 6}, {1000, 6}};  // 4 or 5 would not come out even
  for (const auto& [tokens, together] : expected) EXPECT_EQ(units_together(units, tokens), together) << tokens;
  const Unit two = joined(std::span(units).subspan(2, 2));
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.tokens, 3);
  EXPECT_EQ(two.ids, (std::vector<int32_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(two.targets, (std::vector<int32_t>{2, 2, kIgnored, 3, 3, kIgnored}));
  units.back() = {2, 2, {1, 2, 3, 4}, {5, 6, 7, 8}};  // another shape cannot stand in the same rows
  EXPECT_EQ(units_together(units, 1000), 1);
}

TEST_F(TrainerTest, another_seed_does) {
  train(config("a"));
  TrainConfig c = config("b");
  c.seed = 1;
  train(c);
  EXPECT_NE(weights("a"), weights("b"));
}

TEST_F(TrainerTest, goes_on_where_it_stopped_to_the_bit) {
  for (const char* optimizer : {"adamw", "sgd", "lion", "muon"})
    for (const char* dtype : {"f32", "bf16"}) {
      const std::string name = join(optimizer, "_", dtype);
      TrainConfig c = config(name + "_whole");
      c.optimizer = optimizer;
      c.dtype = dtype;
      c.learning_rate = 3e-3;
      const int64_t all = stopped_at(c, 0).moments;
      c.out = (folder / (name + "_parts")).string();
      // Wherever the stops fall: while data is read, weights are drawn, a step, an evaluation or a file is half done.
      int stops = 0;
      for (int64_t moment = all / 2; !stopped_at(c, moment, /*resume=*/fs::exists(c.out + "/config.toml")).finished; moment += 37) ++stops;
      EXPECT_GE(stops, 2) << name;
      EXPECT_EQ(weights(name + "_whole"), weights(name + "_parts")) << name;
    }
}

// The step that is being computed is dropped, in the middle of its second micro-batch.
TEST_F(TrainerTest, a_stop_drops_the_unfinished_step) {
  const TrainConfig c = config("stopped");
  StopWhen third_step([&](const Work& work) { return work.what == "micro-batch" && work.done == 1 && records(c.out, "loss").size() == 2; });
  const TrainOutcome outcome = train(c, third_step);
  EXPECT_FALSE(outcome.finished);
  EXPECT_EQ(outcome.step, 2);
  EXPECT_EQ(records(c.out, "loss").size(), 2u);
  EXPECT_EQ(checkpoints(c.out), std::vector<std::string>{"checkpoint-0000000002.safetensors"});
}

// Nothing is saved twice, and nothing where no step was finished.
TEST_F(TrainerTest, a_stop_in_the_first_step_saves_nothing) {
  const TrainConfig c = config("first");
  StopWhen first_step(
      [&](const Work& work) { return work.what == "micro-batch" && work.done == 1 && fs::exists(c.out); });  // not while it is planned
  EXPECT_EQ(train(c, first_step).step, 0);
  EXPECT_TRUE(checkpoints(c.out).empty());
  EXPECT_TRUE(train(c).finished);  // as if it had never been begun
}

TEST_F(TrainerTest, an_evaluation_that_was_stopped_is_made_up_for) {
  train(config("whole"));
  const TrainConfig c = config("parts");
  StopWhen evaluating([&](const Work& work) { return work.what == "evaluating" && work.done == 1 && fs::exists(c.out); });
  EXPECT_EQ(train(c, evaluating).step, 4);
  EXPECT_TRUE(records(c.out, "validation_loss").empty());
  train(c, true);
  for (const char* kind : {"validation_loss", "sample"})
    EXPECT_EQ(records(c.out, kind), records((folder / "whole").string(), kind)) << kind;
}

// A best model that was being written is no best model: the evaluation is made again.
TEST_F(TrainerTest, a_best_model_that_was_stopped_is_made_up_for) {
  const TrainConfig c = config("best");
  train(config("whole"));
  StopWhen writing([](const Work& work) { return work.what == "writing the model" && work.done > 0; });
  EXPECT_FALSE(train(c, writing).finished);
  EXPECT_FALSE(fs::exists(folder / "best/best/best.json"));
  EXPECT_TRUE(train(c, true).finished);
  for (const char* file : {"model.safetensors", "best.json"})
    EXPECT_EQ(contents(folder / "whole/best" / file), contents(folder / "best/best" / file));
  EXPECT_EQ(weights("whole"), weights("best"));
}

TEST_F(TrainerTest, a_stopped_export_is_made_up_for) {
  TrainConfig c = config("export");
  c.keep_best = false;  // it writes the model too
  StopWhen writing([](const Work& work) { return work.what == "writing the model" && work.done > 0; });
  EXPECT_FALSE(train(c, writing).finished);
  EXPECT_TRUE(fs::is_empty(folder / "export/model"));
  EXPECT_TRUE(train(c, true).finished);
  EXPECT_FALSE(weights("export").empty());
}

TEST_F(TrainerTest, tokenising_that_was_stopped_leaves_nothing) {
  const TrainConfig c = config("tokens");
  StopWhen tokenising([](const Work& work) { return work.what == "tokenising"; });
  EXPECT_THROW(train(c, tokenising), Stopped);
  EXPECT_TRUE(fs::is_empty(c.cache));
  EXPECT_FALSE(fs::exists(c.out));
}

TEST_F(TrainerTest, goes_on_from_the_last_good_checkpoint) {
  train(config("whole"));
  TrainConfig c = config("hurt");
  train(c);
  const std::string newest = CheckpointFolder(c.out + "/checkpoints", 2, {}).paths().front();
  fs::resize_file(newest, 1000);
  fs::remove_all(folder / "hurt/model");
  train(c, true);
  EXPECT_EQ(weights("whole"), weights("hurt"));
}

// With --keep 1 a damaged checkpoint of a higher step once took the place of the one just written.
TEST_F(TrainerTest, what_it_saves_outlives_a_damaged_checkpoint_of_a_higher_step) {
  TrainConfig c = config("damaged");
  c.keep = 1;
  train(c);
  const fs::path checkpoints = folder / "damaged/checkpoints";
  std::ofstream(checkpoints / "checkpoint-0000000999.safetensors")
      << contents(checkpoints / "checkpoint-0000000008.safetensors").substr(0, 1000);
  c.steps = 10;
  EXPECT_EQ(train(c, true).step, 10);
  EXPECT_TRUE(fs::exists(checkpoints / "checkpoint-0000000010.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoints / "checkpoint-0000000999.safetensors"));
  c.steps = 11;
  EXPECT_EQ(train(c, true).step, 11);
}

TEST_F(TrainerTest, a_finished_run_has_its_model) {
  const TrainConfig c = config("a");
  train(c);
  const std::string model = weights("a");
  fs::remove_all(folder / "a/model");  // as if killed after the last checkpoint
  EXPECT_TRUE(train(c, true).finished);
  EXPECT_EQ(weights("a"), model);
}

// The best model stays when the run gets worse, across interruptions; model/ is what the run ended with.
TEST_F(TrainerTest, keeps_the_model_of_the_lowest_validation_loss) {
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
  c = config("none");
  c.keep_best = false;
  EXPECT_FALSE(train(c).best.has_value());
  EXPECT_FALSE(fs::exists(folder / "none/best"));
}

TEST_F(TrainerTest, no_held_out_data_means_no_best_model) {
  TrainConfig c = config("all");
  c.validation = 0;
  EXPECT_FALSE(train(c).best.has_value());
  EXPECT_FALSE(fs::exists(folder / "all/best"));
  EXPECT_EQ(contents(folder / "all/report.html").find("perplexity"), std::string::npos);
}

TEST_F(TrainerTest, says_what_is_in_the_way) {
  train(config("a"));
  EXPECT_THROW(train(config("a")), Error);  // there is a run already
  TrainConfig c = config("a");
  c.width = 64;
  const std::string refused = message_of([&] { train(c, true); });
  EXPECT_NE(refused.find("width is 64, but the run in "), std::string::npos) << refused;  // it was another model
  c = config("a");
  c.steps = 10;
  EXPECT_EQ(train(c, true).step, 10);  // more steps are fine
  c.steps = 9;
  EXPECT_THROW(train(c, true), Error);  // fewer were done already
  c.steps = 10;
  {
    const Trainer running(c, {.resume = true, .out = quiet});
    EXPECT_THROW(train(c, true), Error);  // somebody is writing there
  }
  const std::string text = contents(folder / "text.txt");
  fs::rename(folder / "text.txt", folder / "moved.txt");
  c.data = (folder / "moved.txt").string();
  EXPECT_NO_THROW(train(c, true));  // the same data elsewhere
  c.data = (folder / "text.txt").string();
  std::ofstream(folder / "text.txt") << text << text;
  EXPECT_THROW(train(c, true), Error);  // other data of the same characters
  std::ofstream(folder / "text.txt") << std::string(4000, 'x');
  EXPECT_THROW(train(c, true), Error);  // other data
}

TEST_F(TrainerTest, a_prompt_is_read_before_the_first_step) {
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

TEST_F(TrainerTest, momentum_that_was_not_kept_is_not_made_up) {
  TrainConfig c = config("sgd");
  c.optimizer = "sgd", c.momentum = 0;
  train(c);
  c.steps = 9, c.momentum = 0.5;
  EXPECT_THROW(train(c, true), Error);
}

TEST_F(TrainerTest, a_short_run_has_room_for_its_decay) {
  TrainConfig c;
  c.schedule = "wsd", c.steps = 20, c.learning_rate = 1;  // and a warm-up of 50
  EXPECT_EQ(learning_rate(make_schedule(c), 16), 1);
  EXPECT_DOUBLE_EQ(learning_rate(make_schedule(c), 20), c.final_fraction);
  c.decay = 21;
  EXPECT_THROW(make_schedule(c), Error);
}

TEST_F(TrainerTest, a_run_is_named_after_what_it_reads) {
  TrainConfig c;
  c.data = "some/corpus/";
  EXPECT_EQ(resolved(c).out, "runs/llama-tiny-corpus");
  c.data = ".";
  EXPECT_EQ(resolved(c).out, "runs/llama-tiny-" + fs::current_path().stem().string());
  c.data = "a.b/book.txt";
  c.model = "models/small/";
  EXPECT_EQ(resolved(c).out, "runs/small-book");
}

// A folder in, trained on, and out again: the vocabulary and the sizes stay, the loss goes down.
TEST_F(TrainerTest, goes_on_from_a_folder) {
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
  EXPECT_THROW(train(c), Error);  // its sizes are what they are
}

// A learning rate that throws the weights out of range: the step is named, and its capture gives the same again.
TEST_F(TrainerTest, a_loss_that_is_not_finite_is_captured) {
  for (const bool recompute : {false, true}) {
    TrainConfig c = config(recompute ? "bad_again" : "bad");
    c.recompute = recompute;
    c.optimizer = "sgd";
    c.learning_rate = 1e30;
    c.clip = 0;
    c.warmup = 0;
    try {
      train(c);
      FAIL() << "the run went on";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is the first that is not finite"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("--replay"), std::string::npos) << error.what();
    }
    std::string capture;
    for (const auto& entry : fs::directory_iterator(c.out))
      if (entry.path().filename().string().starts_with("capture-")) capture = entry.path().string();
    ASSERT_FALSE(capture.empty());
    const Replay replay = replay_capture(capture, test_device(), 1);
    EXPECT_FALSE(replay.result.finite());
    EXPECT_EQ(std::isnan(replay.result.loss), std::isnan(replay.captured.loss));
    ASSERT_TRUE(replay.bad.has_value());
    EXPECT_FALSE(replay.bad->op.empty() || replay.bad->op == "recompute") << replay.bad->op;
    EXPECT_THROW(replay_capture((folder / "text.txt").string(), test_device(), 1), Error);
  }
}

// Nothing is trained on after the last update; what it did shows in the evaluation, before anything is saved.
TEST_F(TrainerTest, a_last_update_that_is_out_of_range_is_not_saved) {
  TrainConfig c = config("last");
  c.model = "gpt2-124m", c.optimizer = "sgd", c.learning_rate = 1e30, c.clip = 0, c.warmup = 0, c.steps = 1;
  EXPECT_THROW(train(c), Error);
  EXPECT_TRUE(fs::exists(folder / "last/capture-2.safetensors"));
  EXPECT_TRUE(fs::is_empty(folder / "last/checkpoints"));
  EXPECT_FALSE(fs::exists(folder / "last/model"));
}

// No evaluation comes between this update and its checkpoint.
TEST_F(TrainerTest, weights_that_are_not_finite_replace_no_checkpoint) {
  TrainConfig c = config("kept");
  c.optimizer = "sgd", c.clip = 0, c.warmup = 0, c.schedule = "constant", c.steps = 1, c.save_every = 1, c.keep = 1;
  train(c);
  c.learning_rate = 1e300, c.steps = 5, c.evaluate_every = 100;
  try {
    train(c, true);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 3 gave a loss of nan"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("the weight model."), std::string::npos) << error.what();
  }
  EXPECT_TRUE(fs::exists(folder / "kept/checkpoints/checkpoint-0000000001.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "kept/checkpoints/checkpoint-0000000002.safetensors"));
}

TEST_F(TrainerTest, what_a_killed_run_left_half_written_is_removed) {
  const TrainConfig c = config("killed");
  train(c);
  for (const char* name : {"report.html.123.incomplete", "model/model.safetensors.123.incomplete"})
    std::ofstream(folder / "killed" / name) << "half";
  train(c, true);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "killed"))
    EXPECT_NE(entry.path().extension(), ".incomplete") << entry.path();
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
