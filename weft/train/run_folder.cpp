#include "weft/train/run_folder.h"

#include <filesystem>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/train/checkpoint.h"
#include "weft/train/evaluate.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

TrainConfig run_config(const std::string& folder) {
  const std::string file = folder + "/config.toml";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) fail(ErrorCode::bad_file, folder, "holds no run: there is no config.toml in it");
  TrainConfig config = read_run_config(file);
  config.out = folder;
  return resolved(config);
}

std::unique_ptr<Checkpoint> newest_checkpoint(const std::string& folder, const Notice& notice) {
  const std::string checkpoints = folder + "/checkpoints";
  std::error_code ignored;
  auto found = fs::is_directory(checkpoints, ignored) ? CheckpointFolder(checkpoints, 1, notice).newest() : nullptr;
  if (!found) fail(ErrorCode::bad_file, folder, "has no checkpoint that can be read");
  return found;
}

}  // namespace

RunEvaluation evaluate_run(const std::string& folder, const RunOptions& options, const Notice& notice) {
  TrainConfig config = run_config(folder);
  if (!options.device.empty()) config.device = options.device;
  const auto device = open_device(config.device, {.threads = options.threads});
  const auto checkpoint = newest_checkpoint(folder, notice);
  const TrainingProblem problem = make_problem(config, notice);
  check(checkpoint->value("data") == problem.data->identity(), config.data, "encodes to other ids than when the run in ", folder,
        " was started: the data or its tokenizer has changed");
  const auto model = make_training_model(config, problem.model, *device);
  for (const NamedTensor& p : model->all_parameters())
    if (p.tensor.requires_grad()) checkpoint->restore({"model." + p.name, p.tensor});

  RunEvaluation out;
  out.step = checkpoint->integer("step");
  const int64_t held_out = problem.data->validation_sequences();
  check(held_out > 0, folder, "the run has no held-out data: its validation is ", config.validation);
  out.sequences = config.evaluate_units > 0 ? std::min(config.evaluate_units, held_out) : held_out;
  out.result = evaluation(*model, problem, config.evaluate_units, out.step);
  const History history = History::read(folder + "/metrics.jsonl");
  if (!history.evaluations().empty()) out.recorded = history.evaluations().back();
  return out;
}

}  // namespace weft
