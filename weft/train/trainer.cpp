#include "weft/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/device/launch_progress.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"
#include "weft/io/weight_files.h"
#include "weft/train/capture.h"
#include "weft/train/evaluate.h"
#include "weft/train/export.h"
#include "weft/train/run_facts.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// The weights below the adapters are in no checkpoint: a checksum says whether they are still the same.
std::string base_checksum(const TrainConfig& config) {
  if (config.lora_rank == 0) return "";
  const WeightFiles weights(config.model);
  uint32_t crc = 0;
  for (const auto& file : weights.files()) {
    const auto bytes = file->mapping()->bytes();
    crc = crc32c(bytes, crc, report_bytes("reading the base weights", bytes.size()));
  }
  return std::to_string(crc);
}

// What a run cannot change on the way: the rest of its data would be other data, its weights another shape. Where the data is
// does not matter, its identity does.
bool stays(const Setting& setting) {
  const auto is = [&](std::initializer_list<std::string_view> keys) {
    return std::find(keys.begin(), keys.end(), setting.key) != keys.end();
  };
  if (setting.group == "data") return !is({"cache", "data", "tokenizer"});
  return setting.group == "model" || is({"batch", "accumulate", "pass_tokens", "optimizer", "seed"});
}

// Raises an error for what a run cannot change, and tells of what it can.
void compare_runs(TrainConfig now, TrainConfig before, const std::string& where, const Notice& notice) {
  if (now.model == before.model) {
    now = with_model_sizes(std::move(now));
    before = with_model_sizes(std::move(before));
  }
  for (const Setting& setting : settings())
    std::visit(
        [&](auto field) {
          const bool same = now.*field == before.*field;
          check(same || !stays(setting), "train", setting.key, " is ", now.*field, ", but the run in ", where, " was begun with ",
                before.*field);
          if (!same && setting.group == "training") notice(join(setting.key, " is now ", now.*field, ", it was ", before.*field));
        },
        setting.field);
  check(now.optimizer != "sgd" || (now.momentum > 0) == (before.momentum > 0), "train", "momentum is ", now.momentum, ", but the run in ",
        where, " was begun with ", before.momentum, ": one of them has no momentum to go on with");
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
    utilisation_ = Utilisation([this] { return options_.peak_flops(*device_); });  // takes memory too: before the model does
  model_ = make_training_model(config_, problem_.model, *device_);
  base_checksum_ = base_checksum(config_);
  optimizer_ = make_optimizer(config_, *model_);
  training_ = std::make_unique<TrainingStep>(
      *model_, *optimizer_,
      StepOptions{
          .clip = config_.clip, .recompute = config_.recompute, .seed = uint64_t(config_.seed), .pass_tokens = config_.pass_tokens});
  open_run();
}

Trainer::~Trainer() = default;

void Trainer::open_run() {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  std::error_code error;
  fs::create_directories(config_.out, error);
  if (error) fail(ErrorCode::bad_file, config_.out, "the run's folder cannot be created: ", error.message());
  lock_ = std::make_unique<FolderLock>(config_.out);
  for (const char* folder : {"", "model", "adapter", "best"}) remove_incomplete(path(folder));  // what a killed run left
  checkpoints_ = std::make_unique<CheckpointFolder>(path("checkpoints"), config_.keep, notice);
  const bool begun = !checkpoints_->paths().empty();
  check(options_.resume || !begun, config_.out, "already holds a run; --resume goes on with it, --out chooses another folder");
  if (options_.resume) {
    if (const auto checkpoint = checkpoints_->newest())
      restore(*checkpoint);
    else if (begun)
      fail(ErrorCode::bad_file, config_.out, "none of its checkpoints can be read");
    else
      notice(join(config_.out, " has no checkpoint yet: training begins at the first step"));
  }
  write_text(path("config.toml"), to_toml(config_));
  history_ = std::make_unique<History>(path("metrics.jsonl"), step_);
  board_ = std::make_unique<TensorBoard>(config_.out, step_);
  best_ = std::make_unique<BestModel>(config_.out, step_ == 0);
  begun_at_ = step_;
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
  const Values values = {{"step", std::to_string(step_)},
                         {"position", std::to_string(position_)},
                         {"config", to_toml(config_)},
                         {"data", problem_.data->identity()},
                         {"base", base_checksum_}};
  check_saved([&] { checkpoints_->save(step_, values, saved_tensors()); });
  saved_ = step_;
}

void Trainer::check_saved(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_fault) check_next_step();  // weights out of range: a capture says more than their name
    throw;
  }
}

void Trainer::keep_best(const EvaluationRecord& record) {
  check_saved([&] {
    best_->replace(record, [&](const std::string& folder) { model_->adapters().empty() ? write_model(folder) : write_adapter(folder); });
  });
}

void Trainer::restore(const Checkpoint& checkpoint) {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  TrainConfig before;
  parse_config(checkpoint.value("config"), checkpoint.path(), before);
  compare_runs(config_, before, checkpoint.path(), notice);
  check(checkpoint.value("data") == problem_.data->identity(), config_.data, "gives other ids than when the run in ", config_.out,
        " was begun: the data or its tokenizer has changed");
  check(checkpoint.value("base") == base_checksum_, config_.model, "has other weights than when the run in ", config_.out, " was begun");
  step_ = saved_ = checkpoint.integer("step");
  check(step_ <= config_.steps, "train", "steps is ", config_.steps, ", but the run in ", config_.out, " has done ", step_, " already");
  position_ = checkpoint.integer("position");
  optimizer_->set_steps(step_);
  for (const NamedTensor& tensor : saved_tensors()) checkpoint.restore(tensor);
  notice(join("going on after step ", step_, " from ", checkpoint.path()));
}

std::vector<Unit> Trainer::next_units() const {
  std::vector<Unit> units;
  for (int64_t i = 0; i < config_.batch * config_.accumulate; ++i) units.push_back(problem_.data->training_unit(position_ + i));
  return units;
}

void Trainer::set_random_state(const std::vector<uint32_t>& state) { training_->random_state().write(state); }

// Those of the next step; where they are not finite, the run ends here. Stopped, it leaves the random state that it found.
StepResult Trainer::gradients(std::span<const Unit> units, const std::vector<uint32_t>& random_state) {
  try {
    const StepResult result = training_->gradients(units);
    if (!result.finite()) stop_at_bad(result, units, random_state);
    return result;
  } catch (const Stopped&) {
    set_random_state(random_state);
    throw;
  }
}

StepRecord Trainer::train_one() {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Unit> units = next_units();
  monitor_.set_title(join("step ", step_ + 1, " of ", config_.steps));
  const StepResult result = gradients(units, training_->random_state().to_host<uint32_t>());
  const double rate = learning_rate(schedule_, step_ + 1);
  {
    const RunMonitor::Finishing finishing(monitor_);  // weights half of which are updated are those of no step
    training_->apply(rate);
    device_->synchronize();
  }
  monitor_.set_title("");
  ++step_;
  position_ += int64_t(units.size());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  seconds_ += seconds;
  return {
      step_,   result.loss, rate, result.gradient_norm, double(result.tokens) / seconds, utilisation_.of_step(plan_.step.flops, seconds),
      seconds_};
}

// What went wrong is told even where the disk is too full to keep it.
void Trainer::stop_at_bad(const StepResult& result, std::span<const Unit> units, const std::vector<uint32_t>& random_state) {
  progress_.finish();
  const int64_t step = step_ + 1;
  const std::string capture = path(join("capture-", step, ".safetensors").c_str());
  std::string kept = join("weft train --replay ", capture, " computes it again");
  const auto keep = [&](auto write) {
    try {
      write();
    } catch (const Error& error) {
      kept = join("not all of it could be kept: ", error.what());
    }
  };
  set_random_state(random_state);
  keep([&] { write_capture(capture, config_, *model_, training_->random_state(), units, {step, result.loss, result.gradient_norm}); });
  const std::optional<BadTensor> bad = find_bad_tensor(*training_, *optimizer_, units);
  keep([&] { report(join("stopped at step ", step)); });
  fail(ErrorCode::device_fault, "train", "step ", step, " gave a loss of ", result.loss, " and a gradient norm of ", result.gradient_norm,
       "; ", bad ? bad_text(*bad) : "computed again it is finite", "; ", kept);
}

// Weights that the last update threw out of range are found before they are saved.
void Trainer::check_next_step() {
  const std::vector<uint32_t> random_state = training_->random_state().to_host<uint32_t>();
  gradients(next_units(), random_state);
  set_random_state(random_state);
}

void Trainer::evaluate() {
  const EvaluationRecord record = evaluation(*model_, problem_, config_.evaluate_units, step_);
  if (problem_.data->validation_units() == 0) return;
  if (!std::isfinite(record.validation_loss)) check_next_step();
  board_->scalar("validation_loss", step_, record.validation_loss);
  if (record.accuracy) board_->scalar("accuracy", step_, *record.accuracy);
  if (config_.keep_best && best_->improved_by(record)) keep_best(record);
  history_->add(record);  // after it: a run that is stopped while it keeps its best evaluates again
  progress_.note(join("step ", step_, ": validation loss ", record.validation_loss,
                      record.accuracy ? join(", ", int(std::floor(1000 * *record.accuracy)) / 10.0, " % of unseen sums right") : ""));
}

void Trainer::sample() {
  std::vector<SampleRecord> records;  // all of a step, or none
  monitor_.set_title("sample");
  for (const auto& prompt : prompts_)
    records.push_back({step_, problem_.vocabulary->decode(prompt),
                       sample_text(*model_, *problem_.vocabulary, prompt, sample_options(config_, problem_))});
  monitor_.set_title("");
  for (const SampleRecord& record : records) {
    board_->text("sample", step_, record.prompt + record.text);
    history_->add(record);
  }
}

void Trainer::write_model(const std::string& folder) const {
  export_trained(folder, *model_, *problem_.vocabulary, is_folder(config_.model) ? config_.model : "");
}

void Trainer::write_adapter(const std::string& folder) const {
  const bool own_tokenizer = problem_.sums || !config_.tokenizer.empty();
  export_adapter(folder, *model_, config_.model, *problem_.vocabulary, own_tokenizer);
}

void Trainer::report(const std::string& state) {
  ReportFacts facts{.title = last_name(config_.model),
                    .subtitle = problem_.data->description(),
                    .state = state,
                    .steps = config_.steps,
                    .facts = {{"parameters", parameters_text(plan_)},
                              {"device", device_->description()},
                              {"precision", config_.dtype == "bf16" ? "bf16, f32 master weights" : "f32"},
                              {"optimizer", config_.optimizer + ", " + config_.schedule + " schedule"},
                              {"tokens a step", std::to_string(plan_.tokens)},
                              {"work a step", count_text(plan_.step.flops) + "FLOP"},
                              {"memory at the peak", bytes_text(double(plan_.peak()))}},
                    .config = to_toml(config_),
                    .written = date_text(std::chrono::system_clock::now())};
  if (const PeakFlops& peak = utilisation_.peak(); peak.rate > 0)
    facts.facts.push_back({"peak of the device", count_text(peak.rate) + "FLOP/s, " + peak.of});
  if (best_->record())
    facts.facts.push_back(
        {"best model", join(path("best"), ", step ", best_->record()->step, ", validation loss ", best_->record()->validation_loss)});
  if (!options_.command.empty()) facts.facts.push_back({"command line", options_.command});
  facts.facts.push_back({begun_at_ ? join("resumed after step ", begun_at_) : "started", date_text(started_)});
  facts.facts.push_back({"host", host_name()});
  facts.facts.push_back({"version", "weft " + version_text()});
  write_report(path("report.html"), facts, *history_);
  reported_ = std::chrono::steady_clock::now();
}

bool Trainer::report_due() const { return std::chrono::steady_clock::now() - reported_ >= std::chrono::seconds(kReportSeconds); }

// The evaluation and the samples of the step that was done last, unless they are there.
void Trainer::look_at_model() {
  const auto made = [&](const auto& records) { return !records.empty() && records.back().step == step_; };
  const bool last = step_ == config_.steps, evaluating = due(config_.evaluate_every) || last;
  if (evaluating && !made(history_->evaluations())) evaluate();
  if ((config_.sample_every ? due(config_.sample_every) || last : evaluating) && !made(history_->samples())) sample();
}

void Trainer::train_all(TrainOutcome& outcome) {
  if (step_ > 0) look_at_model();  // a stop may have come between the step and its evaluation
  while (step_ < config_.steps) {
    const StepRecord record = train_one();
    board_->scalar("loss", step_, record.loss);
    board_->scalar("learning_rate", step_, record.learning_rate);
    board_->scalar("gradient_norm", step_, record.gradient_norm);
    board_->scalar("tokens_per_second", step_, record.tokens_per_second);
    history_->add(record);  // last: a run that is killed has no step in metrics.jsonl that TensorBoard lacks
    progress_.step(record, double(config_.steps - step_) * seconds_ / double(step_));
    outcome.loss = progress_.smoothed_loss();
    look_at_model();
    const bool last = step_ == config_.steps;
    if (due(config_.save_every) || last) save();
    if ((due(config_.evaluate_every) || report_due()) && !last) report("running");
  }
  if (!model_->adapters().empty()) write_adapter(path("adapter"));
  write_model(path("model"));
  report("finished");
}

void Trainer::end_stopped() {
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
    end_stopped();
  }
  progress_.finish();
  outcome.step = step_;
  if (!history_->evaluations().empty()) outcome.evaluation = history_->evaluations().back();
  outcome.best = best_->record();
  return outcome;
}

}  // namespace weft
