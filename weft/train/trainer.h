// A whole training run: a config in, a folder out.
//
//   <out>/config.toml         every setting, resolved
//         metrics.jsonl       every measurement (weft/train/history.h)
//         report.html         the run as a page
//         events.out.tfevents.*  for TensorBoard
//         checkpoints/        to resume from
//         best/               the model of the lowest validation loss (weft/train/best.h)
//         model/              at the end: a folder for weft generate and transformers, adapters merged
//         adapter/            of a LoRA run: a folder for PEFT
//
// Several ranks train one model (weft/comm/communicator.h): the results have the bits of one process. Rank 0 alone prints and writes;
// all read the data, the model and the checkpoint of a resumed run. What goes wrong before the first step, in an evaluation or in a write
// is thrown by all ranks alike (AgreedError); an error inside a step by the rank that meets it, which then is to end the others.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/comm/communicator.h"
#include "weft/io/folder_lock.h"
#include "weft/train/agreement.h"
#include "weft/train/best.h"
#include "weft/train/checkpoint.h"
#include "weft/train/config.h"
#include "weft/train/history.h"
#include "weft/train/plan.h"
#include "weft/train/progress.h"
#include "weft/train/report.h"
#include "weft/train/run_monitor.h"
#include "weft/train/saved_state.h"
#include "weft/train/setup.h"
#include "weft/train/step.h"
#include "weft/train/tensorboard.h"
#include "weft/train/utilisation.h"

namespace weft {

struct TrainerOptions {
  bool resume = false;
  std::FILE* out = stderr;                            // where progress goes
  const std::atomic<bool>* stop = nullptr;            // set by another thread or a signal: save the last finished step and end
  std::function<PeakFlops(Device&)> peak_flops = {};  // measures the device, for the utilisation; empty: none is reported
  std::string command = {};                           // the command line, for the report
  Communicator* ranks = nullptr;                      // that train together; null: this process alone
  std::shared_ptr<Device> device = nullptr;           // null: the config's is opened
};

struct TrainOutcome {
  int64_t step = 0;
  bool finished = false;                // false: stopped by options.stop
  int64_t skipped = 0;                  // steps without an update: --on-bad-step skip
  std::optional<EndRecord> early = {};  // the run ended before its last step: --patience
  double loss = 0;
  std::optional<EvaluationRecord> evaluation;
  std::optional<EvaluationRecord> best;  // of the model in <folder>/best
  std::string folder, report;
};

class Trainer {
 public:
  // Throws Stopped if a stop is requested before the first step.
  Trainer(TrainConfig config, TrainerOptions options);
  ~Trainer();

  // Trains to the last step, or as long as --patience lasts, and writes the model. A stop drops the current step between two of its ops and
  // saves the last finished one; a run resumed from there ends with the same bits as one that was never stopped.
  TrainOutcome run();

  const Model& model() const { return *model_; }
  const Plan& plan() const { return plan_; }
  const TrainingProblem& problem() const { return problem_; }

 private:
  void prepare();
  void compare_ranks();
  void compare_contents();
  void read_problem();
  void set_steps();
  void make_parts();
  TrainConfig planned_config() const;
  MemoryInfo memory_of_rank() const;
  void open_run();
  std::unique_ptr<Checkpoint> open_folder();
  void restore(const Checkpoint& checkpoint);
  void open_output();

  std::vector<TokenBatch> sequences_of(const std::vector<int64_t>& micro_batches) const;
  std::vector<TokenBatch> own_sequences() const { return sequences_of(share_.micro_batches); }
  int64_t sequences_per_step() const { return config_.batch * config_.accumulate; }
  void set_random_state(const std::vector<uint32_t>& state);
  StepResult gradients(std::span<const TokenBatch> own, const std::vector<uint32_t>& random_state, bool may_skip);
  StepResult computed(std::span<const TokenBatch> own);
  StepRecord train_one();
  void update(double rate);
  void note_skipped(const StepResult& result);
  void check_next_step();
  std::string bad_tensor(std::span<const TokenBatch> own);
  void stop_at_bad(const StepResult& result, std::span<const TokenBatch> own, const std::vector<uint32_t>& random_state);

  void train_all(TrainOutcome& outcome);
  bool ended() const { return step_ == steps_ || out_of_patience_; }
  void finish();
  void finish_stopped();
  void record_step(const StepRecord& record);
  void evaluate_and_sample();
  void evaluate();
  void evaluate_tasks();
  void sample();
  void save();
  void check_saved(const std::function<void()>& write);
  void keep_best(const EvaluationRecord& record);
  void write_model(const std::string& folder) const;
  void write_adapter(const std::string& folder) const;
  void report(const std::string& state);
  bool report_due() const;
  void add_rank_facts(ReportFacts& facts) const;
  void gather_waits();
  void by_first(const std::function<void()>& work);
  void raise_failure();
  std::string path(const char* name) const { return config_.out + "/" + name; }
  bool due(int64_t every) const { return every > 0 && step_ % every == 0; }

  Agreement ranks_;
  TrainConfig config_;
  TrainerOptions options_;
  Progress progress_;
  RunMonitor monitor_;
  std::shared_ptr<Device> device_;
  TrainingProblem problem_;
  Plan plan_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<TrainingStep> training_;
  Share share_;  // the micro-batches of this rank
  std::unique_ptr<SavedState> state_;
  std::unique_ptr<CheckpointFolder> checkpoints_;
  std::unique_ptr<History> history_;    // of ranks other than 0: without a file
  std::unique_ptr<TensorBoard> board_;  // rank 0 alone, as checkpoints_, best_ and lock_
  std::unique_ptr<BestModel> best_;
  int64_t steps_ = 0;  // of the whole run
  Schedule schedule_;
  std::vector<std::vector<int32_t>> prompts_;  // of the samples
  std::unique_ptr<FolderLock> lock_;
  std::string base_checksum_;  // of the weights below LoRA adapters; empty: all weights are trained
  Utilisation utilisation_;
  double seconds_ = 0;    // of training, since the start of the run
  int64_t step_ = 0;      // the last finished one
  int64_t saved_ = 0;     // the step of the newest checkpoint
  int64_t position_ = 0;  // sequences read
  int64_t skipped_ = 0;   // steps without an update
  int64_t skipped_in_a_row_ = 0;
  bool out_of_patience_ = false;
  bool other_validation_ = false;  // than before the checkpoint that the run continues from
  int64_t resumed_at_ = 0;         // the step after which this process started
  struct Recorded {
    int64_t evaluation = -1, tasks = -1, samples = -1;  // the last steps that have them
  } recorded_;
  double step_seconds_ = 0, waited_ = 0;  // of this process in steps; waited_: for other ranks
  std::vector<double> shares_waited_;     // by rank, of the time of steps
  std::exception_ptr failure_;            // of rank 0, to be thrown where all ranks meet
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point reported_ = {};
};

}  // namespace weft
