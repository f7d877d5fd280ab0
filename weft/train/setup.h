// From a config to the things a run is made of: data, model, optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/models/model.h"
#include "weft/train/config.h"
#include "weft/train/dataset.h"
#include "weft/train/optimizer.h"
#include "weft/train/schedule.h"
#include "weft/train/sums.h"

namespace weft {

using Notice = std::function<void(const std::string&)>;

// The data, and the model that can read it.
struct TrainingProblem {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<Dataset> data;
  const SumsDataset* sums = nullptr;  // the data, where it is the built-in one
  ModelConfig model;
};

// Reads (and where needed tokenises) the data. Throws, naming the file or the setting, for what does not fit together.
TrainingProblem make_problem(const TrainConfig& config, const Notice& notice);

std::string last_name(const std::string& path);  // of a file or folder: what to call a run by

// Whether `model` names a folder to go on from, and not a preset.
bool is_folder(const std::string& model);

// What was left open, decided: the learning rate, the size of a pass, the layers that get adapters, and the run's folder.
TrainConfig resolved(TrainConfig config);
int64_t usual_pass_tokens(const std::string& device);

// The sizes and the dropout that are left to a preset (0, -1), written out, so that two configs of one model can be compared.
// A folder's are its own and stay as they are.
TrainConfig with_model_sizes(TrainConfig config);

// Trainable: new weights, those of the folder, or adapters to them.
std::unique_ptr<Model> make_training_model(const TrainConfig& config, const ModelConfig& model, Device& device);

// The same shapes with no values: what a plan needs.
std::unique_ptr<Model> make_planned_model(const TrainConfig& config, const ModelConfig& model, Device& device);

// Over what is trained: every parameter, or the adapters alone.
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, const Model& model);

Schedule make_schedule(const TrainConfig& config);

}  // namespace weft
