// Output of a trainer beside its checkpoints: evaluations, samples, the model, the report.
#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/train/evaluate.h"
#include "weft/train/export.h"
#include "weft/train/run_facts.h"
#include "weft/train/run_tasks.h"
#include "weft/train/trainer.h"

namespace weft {
namespace {

double rounded(double value) { return std::round(10000 * value) / 10000; }

}  // namespace

void Trainer::keep_best(const EvaluationRecord& record) {
  best_->replace(record, [&](const std::string& folder) { model_->has_adapters() ? write_adapter(folder) : write_model(folder); });
}

void Trainer::evaluate() {
  const EvaluationRecord record = evaluation(*model_, problem_, config_.evaluate_units, step_, ranks_);
  if (problem_.data->validation_sequences() == 0) return;
  if (!std::isfinite(record.validation_loss) && config_.on_bad_step == "stop") check_next_step();
  gather_waits();
  const auto keep = [&] {
    board_->scalar("validation_loss", step_, record.validation_loss);
    if (record.accuracy) board_->scalar("accuracy", step_, *record.accuracy);
    if (config_.keep_best && best_->improved_by(record)) keep_best(record);
    history_->add(record);  // last: a run that is stopped while it writes its best model evaluates again
    progress_.note(join("step ", step_, ": validation loss ", record.validation_loss,
                        record.accuracy ? join(", ", int(std::floor(1000 * *record.accuracy)) / 10.0, " % of unseen sums right") : ""));
  };
  check_saved([&] { ranks_.first(keep); });
}

void Trainer::evaluate_tasks() {
  TasksRecord record;
  monitor_.set_title("tasks");
  check_saved([&] { record = problem_.tasks->evaluate(*model_, step_, ranks_); });
  monitor_.set_title("");
  ranks_.first([&] {
    std::string text;
    for (const TaskScores& each : record.tasks) {
      const std::string tag = join("tasks/", each.task, "/", each.shots > 0 ? join(each.shots, "-shot/") : "");
      for (const Score& score : each.scores) board_->scalar(tag + score.metric, step_, score.value);
      text += join(text.empty() ? "" : ", ", each.task, " ", each.scores.front().metric, " ", rounded(each.scores.front().value),
                   each.shots > 0 ? join(" (", each.shots, "-shot)") : "");
    }
    history_->add(record);
    progress_.note(join("step ", step_, ": ", text));
  });
}

void Trainer::sample() {
  ranks_.first([this] {
    std::vector<SampleRecord> records;  // of one step: all are recorded, or none
    monitor_.set_title("sample");
    for (const auto& prompt : prompts_)
      records.push_back({step_, problem_.vocabulary->decode(prompt),
                         sample_text(*model_, *problem_.vocabulary, prompt, sample_options(config_, problem_))});
    monitor_.set_title("");
    for (const SampleRecord& record : records) {
      board_->text("sample", step_, record.prompt + record.text);
      history_->add(record);
    }
  });
}

void Trainer::write_model(const std::string& folder) const {
  export_trained(folder, *model_, *problem_.vocabulary, is_folder(config_.model) ? config_.model : "");
}

void Trainer::write_adapter(const std::string& folder) const {
  const bool own_tokenizer = problem_.sums || !config_.tokenizer.empty() || !config_.chat_template.empty();
  export_adapter(folder, *model_, config_.model, *problem_.vocabulary, own_tokenizer);
}

void Trainer::report(const std::string& state) {
  ReportFacts facts{.title = last_name(config_.model),
                    .subtitle = problem_.data->description(),
                    .state = state,
                    .steps = steps_,
                    .facts = {{"parameters", parameters_text(plan_)},
                              {"device", device_->description()},
                              {"precision", config_.dtype == "bf16" ? "bf16, f32 master weights" : "f32"},
                              {"optimizer", config_.optimizer + ", " + config_.schedule + " schedule"},
                              {"tokens a step", std::to_string(plan_.tokens)},
                              {"work a step", count_text(plan_.step.flops) + "FLOP"},
                              {"memory at the peak", bytes_text(double(plan_.peak()))}},
                    .config = to_toml(config_),
                    .written = date_text(std::chrono::system_clock::now())};
  if (plan_.counted_share < 1) facts.facts.push_back({"counted in the loss", counted_text(plan_.counted_share)});
  if (const PeakFlops& peak = utilisation_.peak(); peak.rate > 0)
    facts.facts.push_back({"peak of the device", count_text(peak.rate) + "FLOP/s, " + peak.of});
  add_rank_facts(facts);
  if (const PackingFacts packing = problem_.data->packing(); !packing.name.empty())
    facts.facts.push_back({"packing", join(packing.name, ", ", std::lround(1e4 * packing.padding) / 100.0, " % padding")});
  if (config_.epochs > 0)
    facts.facts.push_back({"epochs", join(config_.epochs, " of ", problem_.data->sequences_per_epoch(), " sequences, ", steps_, " steps")});
  if (skipped_) facts.facts.push_back({"skipped steps", join(skipped_, ": loss or gradient norm was not finite")});
  if (out_of_patience_ && step_ < steps_ && !history_->ends().empty())
    facts.facts.push_back(
        {"early stop", join("after step ", step_, ": no lower validation loss in ", history_->ends().back().evaluations, " evaluations")});
  if (config_.keep_best && best_->record())
    facts.facts.push_back(
        {"best model", join(path("best"), ", step ", best_->record()->step, ", validation loss ", best_->record()->validation_loss)});
  if (!options_.command.empty()) facts.facts.push_back({"command line", options_.command});
  facts.facts.push_back({resumed_at_ ? join("resumed after step ", resumed_at_) : "started", date_text(started_)});
  facts.facts.push_back({"host", host_name()});
  facts.facts.push_back({"version", "weft " + version_text()});
  write_report(path("report.html"), facts, *history_);
  reported_ = std::chrono::steady_clock::now();
}

// The share of time in steps that each rank waited for others: collective, and cheap.
void Trainer::gather_waits() {
  if (ranks_.several()) shares_waited_ = ranks_.communicator().all_gather_values(step_seconds_ > 0 ? waited_ / step_seconds_ : 0);
}

// "12 % (rank 0), 3 % (rank 1)"; of many ranks the least and the most.
void Trainer::add_rank_facts(ReportFacts& facts) const {
  if (!ranks_.several()) return;
  Communicator& ranks = ranks_.communicator();
  facts.facts.push_back({"ranks", join(ranks.size(), ", ", ranks.description(), ", shard ", config_.shard)});
  if (shares_waited_.empty()) return;
  const auto text = [&](size_t rank) { return join(int(std::lround(100 * shares_waited_[rank])), " % (rank ", rank, ")"); };
  constexpr size_t kListed = 8;
  std::string shares;
  if (shares_waited_.size() <= kListed) {
    for (size_t rank = 0; rank < shares_waited_.size(); ++rank) shares += (rank ? ", " : "") + text(rank);
  } else {
    const auto [least, most] = std::minmax_element(shares_waited_.begin(), shares_waited_.end());
    shares = join("least ", text(size_t(least - shares_waited_.begin())), ", most ", text(size_t(most - shares_waited_.begin())));
  }
  facts.facts.push_back({"time of steps in communication", shares});
}

bool Trainer::report_due() const { return std::chrono::steady_clock::now() - reported_ >= std::chrono::seconds(kReportSeconds); }

// Evaluates and samples after the last finished step, unless that is recorded already.
void Trainer::evaluate_and_sample() {
  const bool evaluating = due(config_.evaluate_every) || step_ == steps_;
  if (evaluating && recorded_.evaluation != step_) {
    evaluate();
    recorded_.evaluation = step_;
  }
  if (evaluating && config_.patience > 0)  // rank 0 has the evaluations of the whole run, also of its resumed parts
    out_of_patience_ = ranks_.of_first(history_->evaluations_since_best()) >= config_.patience;
  if (problem_.tasks && (config_.evaluate_tasks_every ? due(config_.evaluate_tasks_every) || ended() : evaluating) &&
      recorded_.tasks != step_) {
    evaluate_tasks();
    recorded_.tasks = step_;
  }
  if ((config_.sample_every ? due(config_.sample_every) || ended() : evaluating) && recorded_.samples != step_) {
    sample();
    recorded_.samples = step_;
  }
}

}  // namespace weft
