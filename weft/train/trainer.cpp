#include "weft/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/device/launch_progress.h"
#include "weft/io/atomic_file.h"
#include "weft/train/capture.h"
#include "weft/train/evaluate.h"
#include "weft/train/resume.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

Trainer::Trainer(TrainConfig config, TrainerOptions options)
    : config_(resolved(std::move(config))),
      options_(std::move(options)),
      progress_(options_.out, config_.steps, config_.log_every),
      monitor_(progress_.line(), options_.stop) {
  const Listening listening(monitor_);
  check_config(config_);
  check(!options_.resume || fs::exists(path("config.toml")), config_.out, "holds no run to resume: there is no config.toml in it");
  schedule_ = make_schedule(config_);
  device_ = open_device(config_.device, {.threads = int(config_.threads)});
  const LaunchProgress launches(device_->stream());
  problem_ = make_problem(config_, [&](const std::string& text) { progress_.note(text); });
  progress_.note(problem_.data->description());
  prompts_ = sample_prompts(config_, problem_);
  monitor_.set_title("planning");
  plan_ = make_plan(config_, problem_);
  monitor_.set_title("");
  check_fits(plan_, config_, device_->memory());
  if (options_.peak_flops)
    utilisation_ = Utilisation([this] { return options_.peak_flops(*device_); });  // measured before the model takes its memory
  model_ = make_training_model(config_, problem_.model, *device_);
  base_checksum_ = base_checksum(config_);
  optimizer_ = make_optimizer(config_, *model_);
  training_ = std::make_unique<TrainingStep>(*model_, *optimizer_, step_options(config_));
  open_run();
}

Trainer::~Trainer() = default;

void Trainer::open_run() {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  std::error_code error;
  fs::create_directories(config_.out, error);
  if (error) fail(ErrorCode::bad_file, config_.out, "the run's folder cannot be created: ", error.message());
  lock_ = std::make_unique<FolderLock>(config_.out);
  for (const char* folder : {"", "checkpoints", "model", "adapter", "best"}) remove_incomplete(path(folder));  // left by a killed run
  checkpoints_ = std::make_unique<CheckpointFolder>(path("checkpoints"), config_.keep, notice);
  const bool begun = !checkpoints_->paths().empty();
  check(options_.resume || !begun, config_.out, "already holds a run; --resume continues it, --out chooses another folder");
  if (options_.resume) {
    if (const auto checkpoint = checkpoints_->newest())
      restore(*checkpoint);
    else if (begun)
      fail(ErrorCode::bad_file, config_.out, "none of its checkpoints can be read");
    else
      notice(join(config_.out, " has no checkpoint yet: training starts at the first step"));
  }
  write_text(path("config.toml"), to_toml(config_));
  history_ = std::make_unique<History>(path("metrics.jsonl"), step_);
  board_ = std::make_unique<TensorBoard>(config_.out, step_);
  best_ = std::make_unique<BestModel>(config_.out, step_ == 0);
  resumed_at_ = step_;
  if (!history_->steps().empty()) seconds_ = history_->steps().back().seconds;
}

std::vector<NamedTensor> Trainer::saved_tensors() const {
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& p : optimizer_->parameters()) tensors.push_back({"model." + p.name, p.tensor});
  for (const NamedTensor& s : optimizer_->state()) tensors.push_back({"optimizer." + s.name, s.tensor});
  tensors.push_back({"random_state", training_->random_state()});
  return tensors;
}

void Trainer::save() {
  const RunMonitor::Finishing finishing(monitor_);
  const Values values = {{"step", std::to_string(step_)}, {"position", std::to_string(position_)},
                         {"config", to_toml(config_)},    {"data", problem_.data->identity()},
                         {"base", base_checksum_},        {"arithmetic", device_->arithmetic()}};
  check_saved([&] { checkpoints_->save(step_, values, saved_tensors()); });
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

void Trainer::restore(const Checkpoint& checkpoint) {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  TrainConfig before;
  parse_config(checkpoint.value("config"), checkpoint.path(), before);
  check_resumable(config_, before, checkpoint.path(), notice);
  check(checkpoint.value("data") == problem_.data->identity(), config_.data, "encodes to other ids than when the run in ", config_.out,
        " was started: the data or its tokenizer has changed");
  check(checkpoint.value("base") == base_checksum_, config_.model, "has other weights than when the run in ", config_.out, " was started");
  const std::string now = device_->arithmetic();
  if (const std::string* then = checkpoint.find("arithmetic"); then && *then != now)
    notice(join("the steps so far were computed by ", *then, ", the next ones will be by ", now,
                ": their bits may differ from those of an unbroken run"));
  step_ = saved_ = checkpoint.integer("step");
  check(step_ <= config_.steps, "train", "steps is ", config_.steps, ", but the run in ", config_.out, " has done ", step_, " already");
  position_ = checkpoint.integer("position");
  optimizer_->set_steps(step_);
  for (const NamedTensor& tensor : saved_tensors()) checkpoint.restore(tensor);
  notice(join("resuming after step ", step_, " from ", checkpoint.path()));
}

std::vector<TokenBatch> Trainer::next_sequences() const {
  std::vector<TokenBatch> sequences;
  for (int64_t i = 0; i < config_.batch * config_.accumulate; ++i) sequences.push_back(problem_.data->training_sequence(position_ + i));
  return sequences;
}

void Trainer::set_random_state(const std::vector<uint32_t>& state) { training_->random_state().write(state); }

// The gradients of the next step; ends the run if they are not finite. A stop restores the random state.
StepResult Trainer::gradients(std::span<const TokenBatch> sequences, const std::vector<uint32_t>& random_state) {
  try {
    const StepResult result = training_->gradients(sequences);
    if (!result.finite()) stop_at_bad(result, sequences, random_state);
    return result;
  } catch (const Stopped&) {
    set_random_state(random_state);
    throw;
  }
}

StepRecord Trainer::train_one() {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TokenBatch> sequences = next_sequences();
  monitor_.set_title(join("step ", step_ + 1, " of ", config_.steps));
  const StepResult result = gradients(sequences, training_->random_state().to_host<uint32_t>());
  const double rate = learning_rate(schedule_, step_ + 1);
  {
    const RunMonitor::Finishing finishing(monitor_);  // a stop in the middle of an update would leave some weights updated and others not
    training_->apply(rate);
    device_->synchronize();
  }
  monitor_.set_title("");
  ++step_;
  position_ += int64_t(sequences.size());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  seconds_ += seconds;
  return {
      step_,   result.loss, rate, result.gradient_norm, double(result.tokens) / seconds, utilisation_.of_step(plan_.step.flops, seconds),
      seconds_};
}

// Reports what went wrong even if the disk is too full for the capture.
void Trainer::stop_at_bad(const StepResult& result, std::span<const TokenBatch> sequences, const std::vector<uint32_t>& random_state) {
  progress_.finish();
  const int64_t step = step_ + 1;
  const std::string capture = path(join("capture-", step, ".safetensors").c_str());
  std::string kept = join("weft train --replay ", capture, " repeats it");
  const auto keep = [&](auto write) {
    try {
      write();
    } catch (const Error& error) {
      kept = join("the capture could not be written: ", error.what());
    }
  };
  set_random_state(random_state);
  keep([&] { write_capture(capture, config_, *model_, training_->random_state(), sequences, {step, result.loss, result.gradient_norm}); });
  const std::optional<BadTensor> bad = find_bad_tensor(*training_, *optimizer_, sequences);
  keep([&] { report(join("stopped at step ", step)); });
  fail(ErrorCode::device_fault, "train", "step ", step, " gave a loss of ", result.loss, " and a gradient norm of ", result.gradient_norm,
       "; ", bad ? bad_text(*bad) : "a second computation is finite", "; ", kept);
}

// Finds weights that the last update made infinite before they are saved.
void Trainer::check_next_step() {
  const std::vector<uint32_t> random_state = training_->random_state().to_host<uint32_t>();
  gradients(next_sequences(), random_state);
  set_random_state(random_state);
}

void Trainer::train_all(TrainOutcome& outcome) {
  if (step_ > 0) evaluate_and_sample();  // the run may have been stopped between a step and its evaluation
  while (step_ < config_.steps) {
    const StepRecord record = train_one();
    board_->scalar("loss", step_, record.loss);
    board_->scalar("learning_rate", step_, record.learning_rate);
    board_->scalar("gradient_norm", step_, record.gradient_norm);
    board_->scalar("tokens_per_second", step_, record.tokens_per_second);
    history_->add(record);  // last: a killed run then has no step in metrics.jsonl that TensorBoard lacks
    progress_.step(record, double(config_.steps - step_) * seconds_ / double(step_));
    outcome.loss = progress_.smoothed_loss();
    evaluate_and_sample();
    const bool last = step_ == config_.steps;
    if (due(config_.save_every) || last) save();
    if ((due(config_.evaluate_every) || report_due()) && !last) report("running");
  }
  if (model_->has_adapters()) write_adapter(path("adapter"));
  write_model(path("model"));
  report("finished");
}

void Trainer::finish_stopped() {
  const RunMonitor::Finishing finishing(monitor_);
  monitor_.set_title("");
  monitor_.end();
  if (step_ > saved_) save();
  report(join("stopped at step ", step_));
}

TrainOutcome Trainer::run() {
  const Listening listening(monitor_);
  const LaunchProgress launches(device_->stream());
  TrainOutcome outcome{
      .step = step_, .finished = false, .loss = NAN, .evaluation = {}, .best = {}, .folder = config_.out, .report = path("report.html")};
  try {
    train_all(outcome);
    outcome.finished = true;
  } catch (const Stopped&) {
    finish_stopped();
  }
  progress_.finish();
  outcome.step = step_;
  if (!history_->evaluations().empty()) outcome.evaluation = history_->evaluations().back();
  outcome.best = best_->record();
  return outcome;
}

}  // namespace weft
