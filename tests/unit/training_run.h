// Shared by tests of whole runs: a temporary folder with a text, and training in it without output.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/base/progress.h"
#include "weft/train/trainer.h"

namespace weft {

// Requests a stop at a report selected by `when`, or after a number of reports and launches.
class StopWhen : public ProgressListener {
 public:
  explicit StopWhen(std::function<bool(const Work&)> when) : when_(std::move(when)) {}
  void progress(const Work& work) override {
    if (when_(work)) stop = true;
    part();
  }
  void part() override {
    if (++moments == moment) stop = true;
  }
  std::atomic<bool> stop = false;
  int64_t moment = 0, moments = 0;

 private:
  std::function<bool(const Work&)> when_;
};

class TrainingRun : public testing::Test {
 protected:
  TrainingRun() {
    std::filesystem::create_directories(folder);
    std::ofstream text(folder / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * i << " of a text\n";
  }
  ~TrainingRun() override {
    std::fclose(quiet);
    std::filesystem::remove_all(folder);
  }

  // Settings of paths and device; the test chooses what to train.
  TrainConfig config_in(const std::string& out) const {
    TrainConfig c;
    c.data = (folder / "text.txt").string();
    c.cache = (folder / "cache").string();
    c.out = (folder / out).string();
    c.device = test_device();
    c.dropout = 0.1;
    c.evaluate_units = 2;
    return c;
  }
  TrainOutcome train(const TrainConfig& c, bool resume = false, const std::atomic<bool>* stop = nullptr) {
    return Trainer(c, {.resume = resume, .out = quiet, .stop = stop}).run();
  }
  // A run that is stopped inside the step after this many further steps.
  TrainOutcome train_steps(const TrainConfig& c, int64_t steps, bool resume = false) {
    const auto done = [&] {
      return resume || std::filesystem::exists(c.out + "/metrics.jsonl") ? int64_t(History::read(c.out + "/metrics.jsonl").steps().size())
                                                                         : 0;
    };
    const int64_t before = done();
    StopWhen next([&](const Work& work) { return work.what == "micro-batch" && done() == before + steps; });
    const Listening listening(next);
    return train(c, resume, &next.stop);
  }
  std::string weights(const std::string& out) const { return contents(folder / out / "model/model.safetensors"); }

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("weft_training_" + std::to_string(::getpid()));
  std::FILE* quiet = std::tmpfile();
};

}  // namespace weft
