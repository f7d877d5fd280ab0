// Evaluation of a run from its folder: the weights of its newest checkpoint on its held-out data.
#pragma once

#include <optional>
#include <string>

#include "weft/train/history.h"
#include "weft/train/setup.h"

namespace weft {

struct RunEvaluation {
  int64_t step = 0;       // of the checkpoint
  int64_t sequences = 0;  // scored
  EvaluationRecord result;
  std::optional<EvaluationRecord> recorded;  // the run's own last evaluation
};

struct RunOptions {
  std::string device = "";  // empty: the run's own
  int threads = 0;          // 0: all this process may use
};

// Scores the held-out sequences as the run did: on the same device the result has the bits of the run's own evaluation after that
// step. Throws if the folder holds no run or no checkpoint, or if the data has changed.
RunEvaluation evaluate_run(const std::string& folder, const RunOptions& options = {}, const Notice& notice = {});

}  // namespace weft
