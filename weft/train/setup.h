// Makes the parts of a run from its config: data, model, optimizer, schedule.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/models/model.h"
#include "weft/train/config.h"
#include "weft/data/chat_dataset.h"
#include "weft/data/dataset.h"
#include "weft/train/optimizer.h"
#include "weft/train/schedule.h"
#include "weft/train/step.h"
#include "weft/data/sums.h"

namespace weft {

class RunTasks;

using Notice = std::function<void(const std::string&)>;

// The data, and the config of the model that reads it.
struct TrainingProblem {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<Dataset> data;
  const SumsDataset* sums = nullptr;             // the data, if it is the built-in sums
  const ChatDataset* conversations = nullptr;    // of --task sft: the data with the first held-out one
  std::shared_ptr<const ChatEncoder> chat = {};  // of the conversations
  ModelConfig model;
  std::shared_ptr<const RunTasks> tasks;  // null: there are none
};

// Reads the data of an unweighted list; its order has the seed. `part`: of a mixture, whose parts have sequences of one length.
using DatasetReader = std::function<std::unique_ptr<Dataset>(const std::string& list, uint64_t seed, bool part)>;
// --data and --validation-data: a list whose items have weights is a mixture, each part of which has an order of its own.
std::unique_ptr<Dataset> read_lists(const TrainConfig& config, const DatasetReader& read);
// All data as one list without weights: a vocabulary needs the characters of all of it.
std::string unweighted_data(const TrainConfig& config);

// The vocabulary that data is tokenised with: a tokenizer's, or the bytes or characters of the data.
std::shared_ptr<const Vocabulary> training_vocabulary(const TrainConfig& config);

// Reads and, if needed, tokenises the data. Throws, naming the file or the setting, when data and model do not fit together.
TrainingProblem make_problem(const TrainConfig& config, const Notice& notice);

// The model before its data sets the size of its vocabulary and its context.
ModelConfig model_config(const TrainConfig& config);

Packing packing_of(const TrainConfig& config);  // documents, if it is left open

std::string last_name(const std::string& path);  // the last part of a path, to name a run by

// Whether `model` names a folder to start from rather than a preset.
bool is_folder(const std::string& model);

// Fills in what was left open: learning rate, tokens of a micro-batch, layers that get adapters, and the run's folder.
TrainConfig resolved(TrainConfig config);
int64_t default_micro_batch_tokens(const std::string& device);

// Replaces sizes and dropout that are left to a preset (0, -1) by the preset's values, so that two configs can be compared. The
// config of a model folder stays as it is.
TrainConfig with_model_sizes(TrainConfig config);

// A trainable model: new weights, the weights of a folder, or adapters to them.
std::unique_ptr<Model> make_training_model(const TrainConfig& config, const ModelConfig& model, Device& device);

// The same model with shapes and no values, for a plan.
std::unique_ptr<Model> make_planned_model(const TrainConfig& config, const ModelConfig& model, Device& device);

// Over the trainable parameters: all, or the adapters alone. Of several ranks each owns its range of them, unless nothing is sharded.
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, const Model& model, const Communicator& ranks = alone(),
                                          Sharding sharding = Sharding::optimizer);

StepOptions step_options(const TrainConfig& config);
StepSize step_size(const TrainConfig& config, const TrainingProblem& problem);
Schedule make_schedule(const TrainConfig& config);  // of config.steps, which is set
// The steps of the run: --steps, or those that read every training sequence --epochs times, the last one rounded up to a whole step.
int64_t steps_of(const TrainConfig& config, const TrainingProblem& problem);

}  // namespace weft
