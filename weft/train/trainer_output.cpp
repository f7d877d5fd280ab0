// Output of a trainer beside its checkpoints: evaluations, samples, the model, the report.
#include <cmath>

#include "weft/base/check.h"
#include "weft/train/evaluate.h"
#include "weft/train/export.h"
#include "weft/train/run_facts.h"
#include "weft/train/trainer.h"

namespace weft {

void Trainer::keep_best(const EvaluationRecord& record) {
  check_saved([&] {
    best_->replace(record, [&](const std::string& folder) { model_->has_adapters() ? write_adapter(folder) : write_model(folder); });
  });
}

void Trainer::evaluate() {
  const EvaluationRecord record = evaluation(*model_, problem_, config_.evaluate_units, step_);
  if (problem_.data->validation_sequences() == 0) return;
  if (!std::isfinite(record.validation_loss)) check_next_step();
  board_->scalar("validation_loss", step_, record.validation_loss);
  if (record.accuracy) board_->scalar("accuracy", step_, *record.accuracy);
  if (config_.keep_best && best_->improved_by(record)) keep_best(record);
  history_->add(record);  // last: a run that is stopped while it writes its best model evaluates again
  progress_.note(join("step ", step_, ": validation loss ", record.validation_loss,
                      record.accuracy ? join(", ", int(std::floor(1000 * *record.accuracy)) / 10.0, " % of unseen sums right") : ""));
}

void Trainer::sample() {
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
  facts.facts.push_back({resumed_at_ ? join("resumed after step ", resumed_at_) : "started", date_text(started_)});
  facts.facts.push_back({"host", host_name()});
  facts.facts.push_back({"version", "weft " + version_text()});
  write_report(path("report.html"), facts, *history_);
  reported_ = std::chrono::steady_clock::now();
}

bool Trainer::report_due() const { return std::chrono::steady_clock::now() - reported_ >= std::chrono::seconds(kReportSeconds); }

// Evaluates and samples after the last finished step, unless that is recorded already.
void Trainer::evaluate_and_sample() {
  const auto made = [&](const auto& records) { return !records.empty() && records.back().step == step_; };
  const bool last = step_ == config_.steps, evaluating = due(config_.evaluate_every) || last;
  if (evaluating && !made(history_->evaluations())) evaluate();
  if ((config_.sample_every ? due(config_.sample_every) || last : evaluating) && !made(history_->samples())) sample();
}

}  // namespace weft
