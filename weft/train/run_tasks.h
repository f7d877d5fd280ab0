// The tasks of a run (--evaluate-tasks): read, given their few-shot examples and checked before the first step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/evaluate/examples.h"
#include "weft/evaluate/results.h"
#include "weft/train/agreement.h"
#include "weft/train/config.h"
#include "weft/train/history.h"

namespace weft {

class RunTasks {
 public:
  // Throws, naming file and line, for an item that cannot be evaluated with this vocabulary and context.
  RunTasks(const TrainConfig& config, std::shared_ptr<const Vocabulary> vocabulary, const ModelConfig& model);

  // The record after `step`. Of several ranks each evaluates every n-th item; every rank returns the same, with the bits of one process.
  TasksRecord evaluate(const Model& model, int64_t step, const Agreement& ranks = Agreement(alone())) const;

  // The passes that take the most memory, for a plan.
  void rehearse(const Model& model) const;

  // Another one for other items or examples.
  std::string identity() const;

 private:
  std::vector<ItemResult> results(const Model& model, const Task& task, const Agreement& ranks) const;

  TaskTokens tokens_;
  TaskOptions options_;
  std::vector<Task> tasks_;     // prompts have their few-shot examples
  std::vector<int64_t> shots_;  // of each task; texts have none
  std::vector<Task> longest_;   // of each task the item with the most tokens, as often as a pass takes it
};

}  // namespace weft
