// What a model can do so far: its loss on held-out data, the sums it gets right, and what it writes.
#pragma once

#include <string>
#include <vector>

#include "weft/models/model.h"
#include "weft/train/history.h"
#include "weft/train/setup.h"

namespace weft {

// The mean loss over the targets of the first `units` validation units (0: all). NaN where there are none.
double validation_loss(const Model& model, const Dataset& data, int64_t units);

// What a run records of its model after `step`: the loss on held-out data, and for sums how many are right.
EvaluationRecord evaluation(const Model& model, const TrainingProblem& problem, int64_t units, int64_t step);

// The share of held-out sums that greedy decoding gets exactly right.
double sums_accuracy(const Model& model, const SumsDataset& sums);

// A continuation of `prompt` (as ids), drawn at temperature 0.8; greedy for 0.
struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 0.8;
  uint64_t seed = 0;
};
// What a run's samples begin with: its prompt, sums that were held out, or the beginning of the held-out text. Throws for a
// prompt that the model cannot read.
std::vector<std::vector<int32_t>> sample_prompts(const TrainConfig& config, const TrainingProblem& problem);
SampleOptions sample_options(const TrainConfig& config, const TrainingProblem& problem);
std::string sample_text(const Model& model, const Vocabulary& vocabulary, const std::vector<int32_t>& prompt, const SampleOptions& options);

}  // namespace weft
