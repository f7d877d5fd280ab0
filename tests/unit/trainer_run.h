// The small run that tests of the trainer share, and ways to stop it.
#pragma once

#include <algorithm>
#include <fstream>

#include "tests/unit/training_run.h"

namespace weft {

class TrainerTest : public TrainingRun {
 protected:
  TrainConfig config(const std::string& out) const {
    TrainConfig c = config_in(out);
    c.width = 32, c.layers = 2, c.heads = 2, c.ffn = 48;
    c.sequence = 24;
    c.steps = 8;
    c.learning_rate = 1e-3;
    c.batch = 4;
    c.pass_tokens = 60;  // two sequences
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
    for (const auto& entry : std::filesystem::directory_iterator(out + "/checkpoints")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace weft
