#include "weft/train/trainer.h"

#include <cmath>

#include "weft/base/check.h"
#include "weft/device/launch_progress.h"

namespace weft {

void Trainer::save() {
  const RunMonitor::Finishing finishing(monitor_);
  gather_waits();
  Values values = {{"step", std::to_string(step_)},
                   {"position", std::to_string(position_)},
                   {"config", to_toml(config_)},
                   {"data", problem_.data->identity()},
                   {"base", base_checksum_},
                   {"arithmetic", device_->arithmetic()},
                   {"skipped", std::to_string(skipped_)},
                   {"skipped_in_a_row", std::to_string(skipped_in_a_row_)}};
  if (!config_.validation_data.empty()) values.emplace("validation_data", problem_.data->validation_identity());
  check_saved([&] { ranks_.first([&] { checkpoints_->save(step_, values, state_->tensors()); }, state_->server()); });
  saved_ = step_;
}

void Trainer::check_saved(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_fault) check_next_step();  // weights that are not finite: a capture shows where they come from
    throw;
  }
}

// Work of rank 0 that the others do not wait for. Its error is thrown where all ranks meet again.
void Trainer::by_first(const std::function<void()>& work) {
  if (!ranks_.several()) return work();
  if (!ranks_.communicator().first() || failure_) return;
  try {
    work();
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
}

void Trainer::raise_failure() {
  ranks_.first([this] {
    if (failure_) std::rethrow_exception(failure_);
  });
}

void Trainer::record_step(const StepRecord& record) {
  by_first([&] {
    if (!record.skipped) board_->scalar("loss", step_, record.loss);
    board_->scalar("learning_rate", step_, record.learning_rate);
    if (!record.skipped) board_->scalar("gradient_norm", step_, record.gradient_norm);
    board_->scalar("tokens_per_second", step_, record.tokens_per_second);
    if (record.counted_share < 1) board_->scalar("counted_share", step_, record.counted_share);
    if (skipped_) board_->scalar("skipped_steps", step_, double(skipped_));
    history_->add(record);  // last: a killed run then has no step in metrics.jsonl that TensorBoard lacks
  });
  progress_.step(record, double(steps_ - step_) * seconds_ / double(step_));
}

void Trainer::train_all(TrainOutcome& outcome) {
  if (step_ > 0) evaluate_and_sample();  // the run may have been stopped between a step and its evaluation
  while (!ended()) {
    record_step(train_one());
    outcome.loss = progress_.smoothed_loss();
    evaluate_and_sample();
    if (due(config_.save_every) || ended()) save();
    if ((due(config_.evaluate_every) || report_due()) && !ended()) by_first([this] { report("running"); });
  }
  raise_failure();
  ranks_.first([this] { finish(); });
  if (step_ < steps_) outcome.early = history_->ends().empty() ? EndRecord{.step = step_} : history_->ends().back();
}

// Writes the results of a run that has ended; rank 0.
void Trainer::finish() {
  if (step_ < steps_ && (history_->ends().empty() || history_->ends().back().step != step_)) {
    const EvaluationRecord* best = history_->best();
    history_->add(EndRecord{step_, history_->evaluations_since_best(), best ? best->step : 0, best ? best->validation_loss : NAN});
  }
  if (model_->has_adapters()) write_adapter(path("adapter"));
  write_model(path("model"));
  report(step_ < steps_ ? join("finished early at step ", step_) : "finished");
}

void Trainer::finish_stopped() {
  const RunMonitor::Finishing finishing(monitor_);
  monitor_.set_title("");
  monitor_.end();
  raise_failure();
  if (step_ > saved_) save();
  ranks_.first([this] { report(join("stopped at step ", step_)); });
}

TrainOutcome Trainer::run() {
  const Listening listening(monitor_);
  const LaunchProgress launches(device_->stream());
  TrainOutcome outcome{.step = step_,
                       .finished = false,
                       .skipped = 0,
                       .early = {},
                       .loss = NAN,
                       .evaluation = {},
                       .best = {},
                       .folder = config_.out,
                       .report = path("report.html")};
  try {
    train_all(outcome);
    outcome.finished = true;
  } catch (const Stopped&) {
    finish_stopped();
  }
  progress_.finish();
  outcome.step = step_;
  outcome.skipped = skipped_;
  if (!history_->evaluations().empty()) outcome.evaluation = history_->evaluations().back();
  if (best_ && config_.keep_best) outcome.best = best_->record();  // else it may be that of an earlier part of the run
  return outcome;
}

}  // namespace weft
