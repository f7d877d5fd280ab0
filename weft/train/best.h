// The model of the lowest validation loss of a run, in <run>/best: a model folder, or of a LoRA run the folder of its adapter.
// best.json says which it is; it is taken away before the weights change and written after them: where it is, it is true.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/train/history.h"

namespace weft {

class BestModel {
 public:
  // Goes on with what the run's folder has; `fresh`: the run begins anew, and what an earlier one left does not count.
  BestModel(const std::string& run, bool fresh);

  bool improved_by(const EvaluationRecord& record) const;
  // `write` writes the model into the folder it is given.
  void replace(const EvaluationRecord& record, const std::function<void(const std::string&)>& write);

  const std::optional<EvaluationRecord>& record() const { return record_; }  // none: no model is kept yet

 private:
  std::string folder_;
  std::optional<EvaluationRecord> record_;
};

// Where the best model of a run is to be loaded from.
struct BestSource {
  std::string model, adapter;  // folders; adapter: empty where the whole model is kept
  EvaluationRecord record;
};
BestSource best_source(const std::string& run);  // throws bad_file naming the folder where the run has none

}  // namespace weft
