// Evaluation of a model during training: its loss on held-out data, the sums it gets right, and samples of its text.
#pragma once

#include <string>
#include <vector>

#include "weft/models/model.h"
#include "weft/train/agreement.h"
#include "weft/train/history.h"
#include "weft/train/setup.h"

namespace weft {

// Of several ranks each evaluates every n-th sequence; the sum is in their order, so that its bits do not depend on the number of ranks.
// Every rank returns the same.

// The mean loss over the targets of the first `sequences` validation sequences (0: all). NaN if there are none.
double validation_loss(const Model& model, const Dataset& data, int64_t sequences, const Agreement& ranks = Agreement(alone()));

// The record of a run after `step`: the loss on held-out data, and for sums the share that is right.
EvaluationRecord evaluation(const Model& model, const TrainingProblem& problem, int64_t sequences, int64_t step,
                            const Agreement& ranks = Agreement(alone()));

// The share of held-out sums that greedy decoding gets exactly right.
double sums_accuracy(const Model& model, const SumsDataset& sums, const Agreement& ranks = Agreement(alone()));

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: greedy
  uint64_t seed = 0;
  std::vector<int32_t> end_ids = {};  // end a sample
};
// The prompts of a run's samples: its --prompt, held-out sums, the beginning of a held-out conversation, or of the held-out text. Throws
// for a prompt that does not fit into the model's context.
std::vector<std::vector<int32_t>> sample_prompts(const TrainConfig& config, const TrainingProblem& problem);
SampleOptions sample_options(const TrainConfig& config, const TrainingProblem& problem);
// A continuation of `prompt`.
std::string sample_text(const Model& model, const Vocabulary& vocabulary, const std::vector<int32_t>& prompt, const SampleOptions& options);

}  // namespace weft
