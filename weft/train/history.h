// The measurements of a run, in memory and as metrics.jsonl, one JSON object per line:
//
//   {"step": 0, "packing": "documents", "training_sequences": 800, "validation_sequences": 40, "padding": 0.004}
//   {"step": 10, "loss": 2.1, "learning_rate": 0.0003, "gradient_norm": 0.9, "tokens_per_second": 12000, "utilisation": 0.4,
//    "epoch": 0.25, "counted_share": 0.4, "seconds": 3.5}
//   {"step": 11, "loss": null, "learning_rate": 0.0003, "gradient_norm": null, ..., "skipped": true}
//   {"step": 100, "validation_loss": 1.9, "accuracy": 0.97}
//   {"step": 100, "prompt": "47+85=", "sample": "132"}
//   {"step": 100, "tasks": {"arc": {"items": 299, "shots": 0, "scores": {"acc": {"value": 0.31, "stderr": 0.03,
//    "low": 0.26, "high": 0.36}}}}}
//   {"step": 500, "other_validation": true}
//   {"step": 900, "ended": "patience", "evaluations": 3, "best_step": 600, "best_validation_loss": 1.8}
//
// docs/training.md has every field. A number that is not finite is null.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "weft/evaluate/statistics.h"

namespace weft {

struct StepRecord {
  int64_t step = 0;
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double tokens_per_second = 0;
  double utilisation = 0;    // of the peak; 0: not known
  double seconds = 0;        // of training so far, interruptions not counted
  double epoch = 0;          // training sequences read so far / those of an epoch
  bool skipped = false;      // loss or gradient norm was not finite: the weights are those of the step before
  double counted_share = 1;  // of the step's tokens, padding included: those that count in the loss
};

struct EvaluationRecord {
  int64_t step = 0;
  double validation_loss = 0;
  std::optional<double> accuracy;
};

// From this step on, evaluations use other held-out sequences than before; their losses are not compared with earlier ones.
struct OtherValidation {
  int64_t step = 0;
};

struct SampleRecord {
  int64_t step = 0;
  std::string prompt, text;
};

// How documents fill the sequences of the run.
struct DataRecord {
  std::string packing;
  int64_t training_sequences = 0, validation_sequences = 0;
  double padding = 0;  // share of the tokens of all training sequences
};

// The scores of a run on its tasks after a step.
struct TaskScores {
  std::string task;
  int64_t items = 0;
  int64_t shots = 0;  // few-shot examples before each item
  std::vector<Score> scores;
};
struct TasksRecord {
  int64_t step = 0;
  std::vector<TaskScores> tasks;
};

// The end of a run before its last step.
struct EndRecord {
  int64_t step = 0;
  int64_t evaluations = 0;  // in a row without a lower validation loss
  int64_t best_step = 0;
  double best_validation_loss = 0;
};

class History {
 public:
  // With a path, every record is also appended to that file. Lines up to step `until` that the file already has are kept; later ones,
  // written after the last checkpoint of a killed run, are removed.
  explicit History(std::string path = "", int64_t until = 0);

  // The records of a file, which a run may still be writing to.
  static History read(const std::string& path);

  void add(const StepRecord& record);
  void add(const EvaluationRecord& record);
  void add(const OtherValidation& record);  // none if nothing was evaluated since the last one
  void add(const SampleRecord& record);
  void add(const TasksRecord& record);
  void add(const EndRecord& record);
  void add(const DataRecord& record);

  const std::optional<DataRecord>& data() const { return data_; }
  const std::vector<StepRecord>& steps() const { return steps_; }
  const std::vector<EvaluationRecord>& evaluations() const { return evaluations_; }
  const std::vector<SampleRecord>& samples() const { return samples_; }
  const std::vector<TasksRecord>& tasks() const { return tasks_; }
  const std::vector<EndRecord>& ends() const { return ends_; }  // several: the run was resumed with more patience

  // The evaluation with the lowest validation loss on the current held-out sequences, the first of several; null if there is none.
  const EvaluationRecord* best() const;
  // Evaluations after the best one; all of the current sequences if none is finite.
  int64_t evaluations_since_best() const;
  int64_t skipped() const;  // steps

 private:
  bool take(const std::string& line, int64_t until);  // parses and adds a line; false: it is damaged or later than `until`
  void write(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::optional<DataRecord> data_;
  std::vector<StepRecord> steps_;
  std::vector<EvaluationRecord> evaluations_;
  size_t compared_ = 0;  // the first evaluation of the current held-out sequences
  std::vector<SampleRecord> samples_;
  std::vector<TasksRecord> tasks_;
  std::vector<EndRecord> ends_;
};

}  // namespace weft
