// Ends of a run: the steps of --epochs, --patience, and steps that are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/unit/trainer_run.h"
#include "weft/tensor/watch.h"

namespace weft {
namespace {

class TrainerEnds : public TrainerTest {
 protected:
  static History history(const TrainConfig& c) { return History::read(c.out + "/metrics.jsonl"); }

  // Rates so small that no weight changes: no evaluation is better than the first.
  TrainConfig unchanging(const std::string& out) const {
    TrainConfig c = config(out);
    c.optimizer = "sgd", c.learning_rate = 1e-30, c.steps = 40, c.evaluate_every = 2, c.patience = 3;
    return c;
  }
};

TEST_F(TrainerEnds, epochs_are_as_many_steps_as_read_every_sequence) {
  TrainConfig c = config("epochs");
  c.packing = "concatenate", c.steps = 0, c.epochs = 1.5, c.batch = 32, c.pass_tokens = 800, c.warmup = 1;
  const int64_t sequences = Trainer(c, {.out = quiet}).problem().data->sequences_per_epoch();
  const TrainOutcome outcome = train(c);
  const int64_t steps = (3 * sequences + 63) / 64;
  EXPECT_EQ(outcome.step, steps);
  EXPECT_GT(steps, 5);
  const History all = history(c);
  ASSERT_EQ(int64_t(all.steps().size()), steps);
  EXPECT_DOUBLE_EQ(all.steps().back().epoch, double(32 * steps) / double(sequences));
  EXPECT_DOUBLE_EQ(all.steps().back().learning_rate, c.learning_rate * c.final_fraction);  // the schedule ends with the run
  TrainConfig more;
  read_config(c.out + "/config.toml", more);
  EXPECT_EQ(more, c);  // not as steps: a resumed run may change the epochs
  more.epochs = 2;
  EXPECT_EQ(train(more, true).step, (4 * sequences + 63) / 64);
}

TEST_F(TrainerEnds, every_epoch_has_all_sequences_in_an_order_of_its_own) {
  const Trainer trainer(config("order"), {.out = quiet});
  const Dataset& data = *trainer.problem().data;
  const int64_t n = data.sequences_per_epoch();
  std::vector<std::vector<std::vector<int32_t>>> epochs(3);
  for (int64_t i = 0; i < 3 * n; ++i) epochs[size_t(i / n)].push_back(data.training_sequence(i).ids);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) std::sort(epoch.begin(), epoch.end());
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
  EXPECT_EQ(std::set(epochs[0].begin(), epochs[0].end()).size(), size_t(n));
}

TEST_F(TrainerEnds, patience_ends_a_run_that_does_not_improve) {
  const TrainConfig c = unchanging("patience");
  const TrainOutcome outcome = train(c);
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.step, 2 * (1 + 3));
  ASSERT_TRUE(outcome.early);
  EXPECT_EQ(outcome.early->step, 8);
  EXPECT_EQ(outcome.early->evaluations, 3);
  EXPECT_EQ(outcome.early->best_step, 2);
  EXPECT_EQ(outcome.best->step, 2);
  EXPECT_EQ(records(c.out, "ended").size(), 1u);
  EXPECT_FALSE(weights("patience").empty());
  EXPECT_NE(contents(folder / "patience/report.html").find("finished early at step 8"), std::string::npos);
  EXPECT_EQ(checkpoints(c.out).back(), "checkpoint-0000000008.safetensors");
}

TEST_F(TrainerEnds, patience_is_the_same_in_a_run_that_was_stopped) {
  TrainConfig c = unchanging("parts");
  train_steps(c, 3);
  train_steps(c, 2, true);
  EXPECT_EQ(train(c, true).step, 8);
  EXPECT_EQ(train(c, true).step, 8);  // and stays at its end
  EXPECT_EQ(records(c.out, "ended").size(), 1u);
  c.patience = 4;
  EXPECT_EQ(train(c, true).step, 10);
  EXPECT_EQ(history(c).ends().back().evaluations, 4);
}

TEST_F(TrainerEnds, patience_that_lasts_changes_nothing) {
  TrainConfig c = config("patient");
  c.patience = 2, c.evaluate_every = 2;
  EXPECT_FALSE(train(c).early);
  c.out = (folder / "plain").string(), c.patience = 0;
  train(c);
  EXPECT_EQ(weights("patient"), weights("plain"));
}

// Validation losses of other held-out sequences are not compared: they end no run, and hide no better model.
TEST_F(TrainerEnds, other_validation_sequences_start_patience_and_the_best_model_anew) {
  std::ofstream(folder / "hard.txt") << std::string(600, 'Z');
  TrainConfig c = config("other");
  c.vocabulary = "bytes", c.packing = "concatenate", c.evaluate_every = 2, c.evaluate_units = 0, c.learning_rate = 0.01;
  std::ofstream(folder / "known.txt") << contents(folder / "text.txt");
  c.validation_data = (folder / "known.txt").string();
  const TrainOutcome first = train(c);
  ASSERT_EQ(first.best->step, 8);
  c.validation_data = (folder / "hard.txt").string(), c.steps = 14, c.patience = 2;
  const TrainOutcome second = train(c, true);
  EXPECT_GT(second.best->validation_loss, first.best->validation_loss);  // letters that the text does not have
  EXPECT_GT(second.best->step, 8);
  EXPECT_EQ(second.best->step, history(c).best()->step);
  EXPECT_EQ(records(c.out, "other_validation").size(), 1u);
  if (second.early) EXPECT_EQ(second.early->best_step, second.best->step);
  c.evaluate_units = 1, c.steps = 18, c.patience = 0;
  EXPECT_GT(train(c, true).best->step, second.step);
  EXPECT_EQ(records(c.out, "other_validation").size(), 2u);
  c.steps = 20;
  train(c, true);  // the same sequences
  EXPECT_EQ(records(c.out, "other_validation").size(), 2u);
}

// Spoils one gradient of each of these steps.
class SpoiledSteps : public ProgressListener {
 public:
  SpoiledSteps(std::set<int64_t> steps, int64_t done) : steps_(std::move(steps)), step_(done) {}
  void progress(const Work& work) override {
    if (work.what != "micro-batch" || work.done != 0) return;
    ++step_;
    armed_ = steps_.contains(step_);
  }
  void part() override {}
  void see(const Seen& seen) {
    if (!armed_ || !seen.backward || !seen.tensor.defined() || seen.tensor.dtype() != DType::f32) return;
    Tensor(seen.tensor).write(std::vector<float>(size_t(seen.tensor.numel()), NAN));
    armed_ = false;
  }

 private:
  std::set<int64_t> steps_;
  int64_t step_;
  bool armed_ = false;
};

class TrainerSkips : public TrainerEnds {
 protected:
  TrainConfig skipping(const std::string& out) const {
    TrainConfig c = config(out);
    c.device = "cpu", c.on_bad_step = "skip", c.evaluate_every = 0, c.save_every = 1, c.keep = 20;
    return c;
  }
  TrainOutcome train_spoiled(const TrainConfig& c, std::set<int64_t> steps, bool resume = false) {
    Trainer trainer(c, {.resume = resume, .out = quiet});
    SpoiledSteps spoiled(std::move(steps), resume ? int64_t(history(c).steps().size()) : 0);
    const Listening listening(spoiled);
    const Watch watch([&](const Seen& seen) { spoiled.see(seen); });
    return trainer.run();
  }
  // A tensor of the checkpoint after a step, as text of its bytes.
  std::string saved(const TrainConfig& c, int step, const std::string& prefix) const {
    char name[64];
    std::snprintf(name, sizeof name, "/checkpoints/checkpoint-%010d.safetensors", step);
    const Checkpoint checkpoint(c.out + name);
    std::string all;
    for (const auto& [tensor, entry] : checkpoint.file().entries())
      if (tensor.starts_with(prefix)) all.append(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
    return all;
  }
};

TEST_F(TrainerSkips, a_bad_step_leaves_weights_and_optimizer_as_they_were) {
  const TrainConfig c = skipping("skips");
  const TrainOutcome outcome = train_spoiled(c, {3, 5, 6});
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.step, 8);
  EXPECT_EQ(outcome.skipped, 3);
  for (const char* part : {"model.", "optimizer.m.", "optimizer.v."}) {
    EXPECT_FALSE(saved(c, 2, part).empty()) << part;
    EXPECT_EQ(saved(c, 2, part), saved(c, 3, part)) << part;
    EXPECT_EQ(saved(c, 4, part), saved(c, 6, part)) << part;
    EXPECT_NE(saved(c, 3, part), saved(c, 4, part)) << part;
  }
  const History all = history(c);
  ASSERT_EQ(all.steps().size(), 8u);
  EXPECT_EQ(all.skipped(), 3);
  for (const StepRecord& r : all.steps()) {
    EXPECT_EQ(r.skipped, r.step == 3 || r.step == 5 || r.step == 6) << r.step;
    EXPECT_EQ(std::isfinite(r.gradient_norm), !r.skipped) << r.step;
  }
  // Data and schedule go on: the other steps read and rate what they do without a skipped one.
  const TrainConfig plain = skipping("plain");
  train_spoiled(plain, {});
  EXPECT_EQ(all.steps()[1].loss, history(plain).steps()[1].loss);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(all.steps()[i].learning_rate, history(plain).steps()[i].learning_rate);
    EXPECT_EQ(all.steps()[i].epoch, history(plain).steps()[i].epoch);
  }
  EXPECT_NE(contents(folder / "skips/report.html").find("steps skipped"), std::string::npos);
}

// The bias correction of AdamW counts updates, not steps; a checkpoint keeps both.
TEST_F(TrainerSkips, a_resumed_run_has_the_bits_of_an_unbroken_one) {
  train_spoiled(skipping("whole"), {2, 6});
  TrainConfig c = skipping("parts");
  c.steps = 4, c.schedule = "constant";
  TrainConfig whole = c;
  whole.out = (folder / "constant").string(), whole.steps = 8;
  train_spoiled(c, {2, 6});
  c.steps = 8;
  EXPECT_EQ(train_spoiled(c, {2, 6}, true).skipped, 2);
  train_spoiled(whole, {2, 6});
  EXPECT_EQ(weights("parts"), weights("constant"));
}

TEST_F(TrainerSkips, a_run_that_only_skips_ends) {
  TrainConfig c = skipping("only");
  c.steps = 120, c.save_every = 0, c.batch = 1, c.layers = 1;
  Trainer trainer(c, {.out = quiet});
  Tensor norm = trainer.model().all_parameters().back().tensor;
  norm.write(std::vector<float>(size_t(norm.numel()), NAN));
  try {
    trainer.run();
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 101 gave a loss of "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("the 100 steps before it were skipped"), std::string::npos) << error.what();
  }
  EXPECT_EQ(history(c).skipped(), 100);
  EXPECT_TRUE(std::filesystem::exists(folder / "only/capture-101.safetensors"));
}

}  // namespace
}  // namespace weft
