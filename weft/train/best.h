// The model with the lowest validation loss of a run, in <run>/best: a model folder, or the adapter folder of a LoRA run. best.json
// has its step and loss; it is removed before the weights change and written after them, so it always matches them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/train/history.h"

namespace weft {

class BestModel {
 public:
  // Continues with the best model in the run's folder; `fresh`: the run starts over, and an earlier best model is ignored.
  BestModel(const std::string& run, bool fresh);

  bool improved_by(const EvaluationRecord& record) const;
  // `write` writes the model into the folder it is given.
  void replace(const EvaluationRecord& record, const std::function<void(const std::string&)>& write);

  const std::optional<EvaluationRecord>& record() const { return record_; }  // nullopt: no model is kept yet

 private:
  std::string folder_;
  std::optional<EvaluationRecord> record_;
};

// The folders to load the best model of a run from.
struct BestSource {
  std::string model, adapter;  // adapter: empty if the whole model is kept
  EvaluationRecord record;
};
BestSource best_source(const std::string& run);  // throws bad_file naming the folder if the run has none

}  // namespace weft
