// The start of a run: its parts are made in phases, each of which ends the same way on all ranks; then its folder is opened.
#include <algorithm>
#include <filesystem>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/data/data_list.h"
#include "weft/device/launch_progress.h"
#include "weft/io/atomic_file.h"
#include "weft/train/evaluate.h"
#include "weft/train/packing_choice.h"
#include "weft/train/resume.h"
#include "weft/train/run_tasks.h"
#include "weft/train/same_on_ranks.h"
#include "weft/train/trainer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Training data must be the same as before.
void check_data(const Checkpoint& checkpoint, const Dataset& data, const TrainConfig& config, const std::string& before) {
  if (checkpoint.value("data") != data.identity())
    fail(ErrorCode::invalid_argument, config.data, "encodes to other ids than when the run in ", config.out, " was started: the data",
         is_weighted(data_items(config.data)) ? ", its weights" : "", " or its tokenizer has changed",
         config.data == before ? "" : join(" (data was ", before, ")"));
}

// Whether evaluations are of other held-out sequences than before the checkpoint: the best model is then the best from here on.
bool other_validation(const Checkpoint& checkpoint, const Dataset& data, const TrainConfig& config, const TrainConfig& before,
                      const Notice& notice) {
  const std::string* validation = checkpoint.find("validation_data");
  if (validation && !config.validation_data.empty() && *validation != data.validation_identity()) {
    notice(join(config.validation_data, ": the validation data has changed; validation losses before this are of other data, and are not ",
                "compared with later ones"));
    return true;
  }
  const auto evaluated = [&](const TrainConfig& c) {
    const int64_t all = data.validation_sequences();
    return c.evaluate_units > 0 ? std::min(c.evaluate_units, all) : all;
  };
  if (evaluated(config) == evaluated(before)) return false;
  notice(join("evaluations are of ", evaluated(config), " held-out sequences, before this they were of ", evaluated(before),
              ": their losses are not compared"));
  return true;
}

TrainConfig agreed_config(const Agreement& ranks, TrainConfig config) {
  ranks.all([&] {
    config = resolved(std::move(config));
    check_config(config);
  });
  return config;
}

// Ranks of this host with a lower number, and all of them.
struct OnHost {
  int before = 0, all = 0;
};
OnHost on_host(const Communicator& ranks) {
  OnHost count;
  for (int rank = 0; rank < ranks.size(); ++rank)
    if (ranks.host(rank) == ranks.host(ranks.rank())) {
      count.before += rank < ranks.rank();
      ++count.all;
    }
  return count;
}

}  // namespace

Trainer::Trainer(TrainConfig config, TrainerOptions options)
    : ranks_(options.ranks ? *options.ranks : alone(), std::chrono::seconds(config.timeout)),
      config_(agreed_config(ranks_, std::move(config))),
      options_(std::move(options)),
      progress_(ranks_.communicator().first() ? options_.out : nullptr, config_.steps, config_.log_every, ranks_.communicator().size()),
      monitor_(progress_.line(), options_.stop) {
  const Listening listening(monitor_);
  ranks_.all([this] { prepare(); });
  compare_ranks();
  const LaunchProgress launches(device_->stream());
  read_problem();
  ranks_.all([this] { make_parts(); });
  compare_contents();
  state_ = std::make_unique<SavedState>(*optimizer_, training_->random_state(), ranks_);
  open_run();
}

Trainer::~Trainer() = default;

void Trainer::prepare() {
  check(!options_.resume || fs::exists(path("config.toml")), config_.out, "holds no run to resume: there is no config.toml in it");
  if (config_.epochs == 0) make_schedule(config_);  // a schedule that does not fit is an error before the data is read
  device_ = options_.device ? options_.device : open_device(config_.device, {.threads = int(config_.threads)});
  choose_packing(config_, planned_config().device, [this](const std::string& text) { progress_.note(text); });
}

void Trainer::compare_ranks() {
  if (!ranks_.several()) return;
  std::vector<Fact> facts;
  ranks_.all([&] { facts = build_facts(); });
  facts.push_back({"engine", ranks_.communicator().description()});
  const std::vector<Fact> set = setting_facts(config_);
  facts.insert(facts.end(), set.begin(), set.end());
  facts.push_back({"arithmetic", device_->arithmetic()});
  check_same(ranks_.communicator(), facts);
}

// New weights are drawn from the seed, others read from files.
void Trainer::compare_contents() {
  if (!ranks_.several()) return;
  std::string weights;
  ranks_.all([&] { weights = weights_checksum(*model_); });
  check_same(ranks_.communicator(), {{"data", problem_.data->identity()},
                                     {"validation data", problem_.data->validation_identity()},
                                     {"weights to start from", weights},
                                     {"tasks", problem_.tasks ? problem_.tasks->identity() : "none"}});
}

// Of several ranks each plans for the GPU that it has.
TrainConfig Trainer::planned_config() const {
  TrainConfig config = config_;
  if (ranks_.several()) config.device = device_->name();
  return config;
}

// The cores' memory is shared by the ranks of a host, each of which is about to take as much.
MemoryInfo Trainer::memory_of_rank() const {
  MemoryInfo memory = device_->memory();
  const auto ranks = on_host(ranks_.communicator()).all;
  if (device_->name() != "cpu" || ranks == 1) return memory;
  memory.free /= ranks;
  memory.limit = "the share of each rank of this host";
  return memory;
}

// One rank of each host tokenises; the others then find the ids in its cache.
void Trainer::read_problem() {
  const bool first = on_host(ranks_.communicator()).before == 0;
  const auto read = [this] { problem_ = make_problem(config_, [this](const std::string& text) { progress_.note(text); }); };
  ranks_.some(first, read);
  if (ranks_.several()) ranks_.some(!first, read);
  ranks_.all([this] {
    progress_.note(problem_.data->description());
    set_steps();
    prompts_ = sample_prompts(config_, problem_);
    share_ = share_of(step_size(config_, problem_), ranks_.communicator(), sharding_from_name(config_.shard));
    monitor_.set_title("planning");
    plan_ = make_plan(planned_config(), problem_, ranks_.communicator().size());
    monitor_.set_title("");
    check_fits(plan_, config_, memory_of_rank());
  });
}

void Trainer::set_steps() {
  steps_ = steps_of(config_, problem_);
  progress_.set_steps(steps_);
  if (config_.epochs > 0)
    progress_.note(join(config_.epochs, " epochs of ", problem_.data->sequences_per_epoch(), " sequences: ", steps_, " steps"));
  TrainConfig config = config_;
  config.steps = steps_;
  schedule_ = make_schedule(config);
  check(config_.patience == 0 || problem_.data->validation_sequences() > 0, "train", "patience is ", config_.patience,
        ", but there is no held-out data to evaluate on: validation is ", config_.validation);
}

void Trainer::make_parts() {
  if (options_.peak_flops && ranks_.communicator().first())
    utilisation_ = Utilisation([this] { return options_.peak_flops(*device_); });  // measured before the model takes its memory
  model_ = make_training_model(config_, problem_.model, *device_);
  base_checksum_ = base_checksum(config_);
  const Sharding sharding = sharding_from_name(config_.shard);
  optimizer_ = make_optimizer(config_, *model_, ranks_.communicator(), sharding);
  training_ = std::make_unique<TrainingStep>(*model_, *optimizer_, step_options(config_), ranks_.communicator(), sharding);
  training_->set_additions(plan_.additions);
}

void Trainer::open_run() {
  std::unique_ptr<Checkpoint> checkpoint;
  ranks_.first([&] { checkpoint = open_folder(); });
  const std::string own = checkpoint ? fs::path(checkpoint->path()).filename().string() : "";
  if (const std::string name = ranks_.communicator().all_gather(own)[0]; !name.empty()) {
    ranks_.all([&] {
      if (!checkpoint) checkpoint = std::make_unique<Checkpoint>(path("checkpoints") + "/" + name);
    });
    check_same(ranks_.communicator(), {{"checkpoint to resume from", join(name, " (checksum ", checkpoint->checksum(), ")")}});
    ranks_.all([&] { restore(*checkpoint); });
  }
  if (!ranks_.communicator().first()) history_ = std::make_unique<History>();
  ranks_.first([this] { open_output(); });
  recorded_ = ranks_.of_first(recorded_);
  resumed_at_ = step_;
}

// Locks the folder, removes what a killed run left half written, and returns the checkpoint to resume from; null: there is none.
std::unique_ptr<Checkpoint> Trainer::open_folder() {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  std::error_code error;
  fs::create_directories(config_.out, error);
  if (error) fail(ErrorCode::bad_file, config_.out, "the run's folder cannot be created: ", error.message());
  lock_ = std::make_unique<FolderLock>(config_.out);
  for (const char* folder : {"", "checkpoints", "model", "adapter", "best"}) remove_incomplete(path(folder));
  checkpoints_ = std::make_unique<CheckpointFolder>(path("checkpoints"), config_.keep, notice);
  const bool begun = !checkpoints_->paths().empty();
  check(options_.resume || !begun, config_.out, "already holds a run; --resume continues it, --out chooses another folder");
  if (!options_.resume) return nullptr;
  auto checkpoint = checkpoints_->newest();
  if (!checkpoint && begun) fail(ErrorCode::bad_file, config_.out, "none of its checkpoints can be read");
  if (!checkpoint) notice(join(config_.out, " has no checkpoint yet: training starts at the first step"));
  return checkpoint;
}

void Trainer::open_output() {
  write_text(path("config.toml"), to_toml(config_));
  history_ = std::make_unique<History>(path("metrics.jsonl"), step_);
  board_ = std::make_unique<TensorBoard>(config_.out, step_);
  best_ = std::make_unique<BestModel>(config_.out, step_ == 0 || other_validation_);
  if (other_validation_) history_->add(OtherValidation{step_});
  if (const PackingFacts packing = problem_.data->packing(); !packing.name.empty() && !history_->data())
    history_->add(DataRecord{packing.name, problem_.data->sequences_per_epoch(), problem_.data->validation_sequences(), packing.padding});
  if (!history_->steps().empty()) seconds_ = history_->steps().back().seconds;
  if (!history_->evaluations().empty()) recorded_.evaluation = history_->evaluations().back().step;
  if (!history_->tasks().empty()) recorded_.tasks = history_->tasks().back().step;
  if (!history_->samples().empty()) recorded_.samples = history_->samples().back().step;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  const auto notice = [this](const std::string& text) { progress_.note(text); };
  const TrainConfig before = parse_run_config(checkpoint.value("config"), checkpoint.path());
  check_resumable(config_, before, checkpoint.path(), notice);
  check_data(checkpoint, *problem_.data, config_, before.data);
  other_validation_ = other_validation(checkpoint, *problem_.data, config_, before, notice);
  check(checkpoint.value("base") == base_checksum_, config_.model, "has other weights than when the run in ", config_.out, " was started");
  const std::string now = device_->arithmetic();
  if (const std::string* then = checkpoint.find("arithmetic"); then && *then != now)
    notice(join("the steps so far were computed by ", *then, ", the next ones will be by ", now,
                ": their bits may differ from those of an unbroken run"));
  step_ = saved_ = checkpoint.integer("step");
  check(step_ <= steps_, "train", "steps is ", steps_, ", but the run in ", config_.out, " has done ", step_, " already");
  position_ = checkpoint.integer("position");
  if (checkpoint.find("skipped")) skipped_ = checkpoint.integer("skipped"), skipped_in_a_row_ = checkpoint.integer("skipped_in_a_row");
  optimizer_->set_steps(step_ - skipped_);
  state_->restore(checkpoint);
  notice(join("resuming after step ", step_, " from ", checkpoint.path()));
}

}  // namespace weft
