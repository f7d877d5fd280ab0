// Runs that are stopped, killed, resumed, or that meet a loss which is not finite.
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

using TrainerStops = TrainerTest;

TEST_F(TrainerStops, resumes_where_it_stopped_to_the_bit) {
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
TEST_F(TrainerStops, a_stop_drops_the_unfinished_step) {
  const TrainConfig c = config("stopped");
  StopWhen third_step([&](const Work& work) { return work.what == "micro-batch" && work.done == 1 && records(c.out, "loss").size() == 2; });
  const TrainOutcome outcome = train(c, third_step);
  EXPECT_FALSE(outcome.finished);
  EXPECT_EQ(outcome.step, 2);
  EXPECT_EQ(records(c.out, "loss").size(), 2u);
  EXPECT_EQ(checkpoints(c.out), std::vector<std::string>{"checkpoint-0000000002.safetensors"});
}

// Nothing is saved twice, and nothing where no step was finished.
TEST_F(TrainerStops, a_stop_in_the_first_step_saves_nothing) {
  const TrainConfig c = config("first");
  StopWhen first_step(
      [&](const Work& work) { return work.what == "micro-batch" && work.done == 1 && fs::exists(c.out); });  // not while it is planned
  EXPECT_EQ(train(c, first_step).step, 0);
  EXPECT_TRUE(checkpoints(c.out).empty());
  EXPECT_TRUE(train(c).finished);  // as if it had never been begun
}

TEST_F(TrainerStops, an_evaluation_that_was_stopped_is_made_up_for) {
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
TEST_F(TrainerStops, a_best_model_that_was_stopped_is_made_up_for) {
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

TEST_F(TrainerStops, a_stopped_export_is_made_up_for) {
  TrainConfig c = config("export");
  c.keep_best = false;  // it writes the model too
  StopWhen writing([](const Work& work) { return work.what == "writing the model" && work.done > 0; });
  EXPECT_FALSE(train(c, writing).finished);
  EXPECT_FALSE(fs::exists(folder / "export/model"));
  EXPECT_TRUE(train(c, true).finished);
  EXPECT_FALSE(weights("export").empty());
}

TEST_F(TrainerStops, tokenising_that_was_stopped_leaves_nothing) {
  const TrainConfig c = config("tokens");
  StopWhen tokenising([](const Work& work) { return work.what == "tokenising"; });
  EXPECT_THROW(train(c, tokenising), Stopped);
  EXPECT_TRUE(fs::is_empty(c.cache));
  EXPECT_FALSE(fs::exists(c.out));
}

TEST_F(TrainerStops, resumes_from_the_last_good_checkpoint) {
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
TEST_F(TrainerStops, what_it_saves_outlives_a_damaged_checkpoint_of_a_higher_step) {
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

TEST_F(TrainerStops, momentum_that_was_not_kept_is_not_made_up) {
  TrainConfig c = config("sgd");
  c.optimizer = "sgd", c.momentum = 0;
  train(c);
  c.steps = 9, c.momentum = 0.5;
  EXPECT_THROW(train(c, true), Error);
}

// A learning rate that throws the weights out of range: the step is named, and its capture gives the same again.
TEST_F(TrainerStops, a_loss_that_is_not_finite_is_captured) {
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

// A stop in the capture, or in the search for the first tensor, does not hide what went wrong.
TEST_F(TrainerStops, a_bad_step_is_reported_though_the_run_is_to_stop) {
  for (const bool searching : {false, true}) {
    TrainConfig c = config(searching ? "searching" : "capturing");
    c.optimizer = "sgd", c.learning_rate = 1e30, c.clip = 0, c.warmup = 0;
    const auto captured = [&] { return fs::exists(c.out + "/capture-2.safetensors") || fs::exists(c.out + "/capture-3.safetensors"); };
    StopWhen listener(
        [&](const Work& work) { return searching ? work.what == "micro-batch" && captured() : work.what == "writing the checkpoint"; });
    const std::string error = message_of([&] { train(c, listener); });
    EXPECT_NE(error.find(" gave a loss of "), std::string::npos) << error;
    EXPECT_NE(error.find("the search for the first tensor that is not finite was stopped"), std::string::npos) << error;
    EXPECT_EQ(error.find("--replay") != std::string::npos, searching) << error;
    EXPECT_EQ(captured(), searching);
    EXPECT_NE(contents(c.out + "/report.html").find("stopped at step "), std::string::npos);
  }
}

// Nothing is trained on after the last update; what it did shows in the evaluation, before anything is saved.
TEST_F(TrainerStops, a_last_update_that_is_out_of_range_is_not_saved) {
  TrainConfig c = config("last");
  c.model = "gpt2-124m", c.optimizer = "sgd", c.learning_rate = 1e30, c.clip = 0, c.warmup = 0, c.steps = 1;
  EXPECT_THROW(train(c), Error);
  EXPECT_TRUE(fs::exists(folder / "last/capture-2.safetensors"));
  EXPECT_TRUE(fs::is_empty(folder / "last/checkpoints"));
  EXPECT_FALSE(fs::exists(folder / "last/model"));
}

// No evaluation comes between this update and its checkpoint.
TEST_F(TrainerStops, weights_that_are_not_finite_replace_no_checkpoint) {
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

TEST_F(TrainerStops, what_a_killed_run_left_half_written_is_removed) {
  const TrainConfig c = config("killed");
  train(c);
  for (const char* name : {"report.html.123.incomplete", "model/model.safetensors.123.incomplete",
                           "checkpoints/checkpoint-0000000009.safetensors.123.incomplete"})
    std::ofstream(folder / "killed" / name) << "half";
  train(c, true);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "killed"))
    EXPECT_NE(entry.path().extension(), ".incomplete") << entry.path();
}

}  // namespace
}  // namespace weft
