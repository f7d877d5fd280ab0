#include "weft/train/history.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN; it is written as null and read as NaN.
double number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : NAN;
}

int64_t integer(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string line_of(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json score_json(const Score& score) {
  return {{"value", score.value}, {"stderr", score.standard_error}, {"low", score.low}, {"high", score.high}};
}

// Members that are not as History::add writes them are left out.
TasksRecord tasks_of(const Json& object, int64_t step) {
  TasksRecord record{step, {}};
  for (const auto& [task, result] : object["tasks"].items()) {
    if (!result.is_object() || !result.contains("scores") || !result["scores"].is_object()) continue;
    TaskScores& scores = record.tasks.emplace_back(TaskScores{task, integer(result, "items"), integer(result, "shots"), {}});
    for (const auto& [metric, score] : result["scores"].items())
      if (score.is_object())
        scores.scores.push_back({metric, number(score, "value"), number(score, "stderr"), number(score, "low"), number(score, "high")});
  }
  return record;
}

}  // namespace

History::History(std::string path, int64_t until) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::string kept;
  {
    std::ifstream old(path_);
    for (std::string line; std::getline(old, line);)
      if (take(line, until)) kept += line + "\n";
  }
  AtomicFile fresh(path_);
  fresh.write(kept);
  fresh.commit();
  file_.open(path_, std::ios::app);
  check(file_.good(), path_, "cannot be written: ", std::strerror(errno));
}

History History::read(const std::string& path) {
  History history;
  std::ifstream file(path);
  check(file.good(), path, "cannot be read: ", std::strerror(errno));
  for (std::string line; std::getline(file, line);) history.take(line, INT64_MAX);
  return history;
}

const EvaluationRecord* History::best() const {
  const EvaluationRecord* best = nullptr;
  for (const EvaluationRecord& r : std::span(evaluations_).subspan(compared_))
    if (std::isfinite(r.validation_loss) && (!best || r.validation_loss < best->validation_loss)) best = &r;
  return best;
}

int64_t History::evaluations_since_best() const {
  const EvaluationRecord* found = best();
  return found ? evaluations_.data() + evaluations_.size() - found - 1 : int64_t(evaluations_.size() - compared_);
}

int64_t History::skipped() const {
  return std::count_if(steps_.begin(), steps_.end(), [](const StepRecord& r) { return r.skipped; });
}

// A truncated line (a full disk, a killed run) is skipped.
bool History::take(const std::string& line, int64_t until) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return false;
  const int64_t step = object["step"].get<int64_t>();
  if (step > until) return false;
  if (object.contains("loss")) {
    steps_.push_back({step, number(object, "loss"), number(object, "learning_rate"), number(object, "gradient_norm"),
                      number(object, "tokens_per_second"), number(object, "utilisation"), number(object, "seconds"),
                      number(object, "epoch"), object.contains("skipped") && object["skipped"] == true,
                      object.value("counted_share", 1.0)});
  } else if (object.contains("validation_loss")) {
    const double accuracy = number(object, "accuracy");
    evaluations_.push_back({step, number(object, "validation_loss"), accuracy == accuracy ? std::optional(accuracy) : std::nullopt});
  } else if (object.contains("other_validation")) {
    compared_ = evaluations_.size();
  } else if (object.contains("sample") && object["sample"].is_string()) {
    samples_.push_back({step, object.value("prompt", ""), object["sample"].get<std::string>()});
  } else if (object.contains("packing") && object["packing"].is_string()) {
    data_ = {object["packing"].get<std::string>(), integer(object, "training_sequences"), integer(object, "validation_sequences"),
             number(object, "padding")};
  } else if (object.contains("tasks")) {
    tasks_.push_back(tasks_of(object, step));
  } else if (object.contains("ended")) {
    ends_.push_back({step, integer(object, "evaluations"), integer(object, "best_step"), number(object, "best_validation_loss")});
  }
  return true;
}

void History::write(const std::string& line) {
  if (path_.empty()) return;
  file_ << line << std::flush;
  check(file_.good(), path_, "cannot be written: ", std::strerror(errno));
}

void History::add(const StepRecord& r) {
  steps_.push_back(r);
  Json object = {{"step", r.step},
                 {"loss", r.loss},
                 {"learning_rate", r.learning_rate},
                 {"gradient_norm", r.gradient_norm},
                 {"tokens_per_second", r.tokens_per_second}};
  if (r.utilisation > 0) object["utilisation"] = r.utilisation;
  object["epoch"] = r.epoch;
  if (r.counted_share < 1) object["counted_share"] = r.counted_share;
  object["seconds"] = r.seconds;
  if (r.skipped) object["skipped"] = true;
  write(line_of(object));
}

void History::add(const EvaluationRecord& r) {
  evaluations_.push_back(r);
  Json object = {{"step", r.step}, {"validation_loss", r.validation_loss}};
  if (r.accuracy) object["accuracy"] = *r.accuracy;
  write(line_of(object));
}

void History::add(const OtherValidation& r) {
  if (compared_ == evaluations_.size()) return;
  compared_ = evaluations_.size();
  write(line_of({{"step", r.step}, {"other_validation", true}}));
}

void History::add(const SampleRecord& r) {
  samples_.push_back(r);
  write(line_of({{"step", r.step}, {"prompt", r.prompt}, {"sample", r.text}}));
}

void History::add(const DataRecord& r) {
  data_ = r;
  write(line_of({{"step", 0},
                 {"packing", r.packing},
                 {"training_sequences", r.training_sequences},
                 {"validation_sequences", r.validation_sequences},
                 {"padding", r.padding}}));
}

void History::add(const TasksRecord& r) {
  tasks_.push_back(r);
  Json tasks = Json::object();
  for (const TaskScores& each : r.tasks) {
    Json scores = Json::object();
    for (const Score& score : each.scores) scores[score.metric] = score_json(score);
    tasks[each.task] = {{"items", each.items}, {"shots", each.shots}, {"scores", scores}};
  }
  write(line_of({{"step", r.step}, {"tasks", tasks}}));
}

void History::add(const EndRecord& r) {
  ends_.push_back(r);
  write(line_of({{"step", r.step},
                 {"ended", "patience"},
                 {"evaluations", r.evaluations},
                 {"best_step", r.best_step},
                 {"best_validation_loss", r.best_validation_loss}}));
}

}  // namespace weft
