#include "weft/train/best.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"
#include "weft/train/config.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& run) { return (fs::path(run) / "best").string(); }
std::string note_of(const std::string& folder) { return (fs::path(folder) / "best.json").string(); }

// nullopt if the file is missing or malformed.
std::optional<EvaluationRecord> read_note(const std::string& folder) {
  std::ifstream file(note_of(folder));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  if (!json.contains("validation_loss") || !json["validation_loss"].is_number()) return std::nullopt;
  return EvaluationRecord{json["step"].get<int64_t>(), json["validation_loss"].get<double>(), std::nullopt};
}

}  // namespace

BestModel::BestModel(const std::string& run, bool fresh) : folder_(folder_of(run)) {
  std::error_code ignored;
  if (fresh)
    fs::remove(note_of(folder_), ignored);
  else
    record_ = read_note(folder_);
}

bool BestModel::improved_by(const EvaluationRecord& record) const {
  return std::isfinite(record.validation_loss) && (!record_ || record.validation_loss < record_->validation_loss);
}

void BestModel::replace(const EvaluationRecord& record, const std::function<void(const std::string&)>& write) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(ErrorCode::bad_file, folder_, "cannot be created: ", error.message());
  // Files are replaced atomically: if the write of the weights fails, the old ones are still there, and the old best.json is restored.
  const std::string note = note_of(folder_), aside = note + std::string(kTemporarySuffix);
  if (record_) fs::rename(note, aside, error);
  if (error) fail(ErrorCode::bad_file, note, "cannot be renamed: ", error.message());
  try {
    write(folder_);
  } catch (...) {
    fs::rename(aside, note, error);
    throw;
  }
  record_.reset();
  AtomicFile file(note);
  file.write(nlohmann::ordered_json{{"step", record.step}, {"validation_loss", record.validation_loss}}.dump() + "\n");
  file.commit();
  fs::remove(aside, error);
  record_ = record;
}

BestSource best_source(const std::string& run) {
  const std::string folder = folder_of(run);
  const auto record = read_note(folder);
  if (!record)
    fail(ErrorCode::bad_file, run, "has no best model: expected ", note_of(folder),
         ", which weft train writes at an evaluation unless --no-keep-best is given");
  if (!fs::exists(fs::path(folder) / "adapter_config.json")) return {folder, "", *record};
  TrainConfig config;
  read_config((fs::path(run) / "config.toml").string(), config);
  return {config.model, folder, *record};
}

}  // namespace weft
