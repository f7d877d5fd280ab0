// The log-probabilities of a prompt's own tokens, a chunk at a time: decoding goes on in between.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "weft/models/model.h"
#include "weft/serve/job.h"

namespace weft::serve {

// Scores each token from the second on, given those before it, and lists the `top` most likely tokens at its place. The values have the
// bits of score() (weft/generate/score.h), with the named adapter or, for "", without one.
class PromptScorer {
 public:
  // The model must outlive it. `pool` must have free pages for all of `ids`; they are free again afterwards.
  PromptScorer(const Model& model, std::shared_ptr<KvPool> pool, std::shared_ptr<const std::vector<int32_t>> ids, int64_t top,
               std::string_view adapter);

  bool done() const { return scores_.size() + 1 >= ids_->size(); }
  void step();                                                // the next chunk; only if it is not done
  PromptScores take() { return std::exchange(scores_, {}); }  // once it is done

 private:
  const Model& model_;
  const std::shared_ptr<const std::vector<int32_t>> ids_;
  const int64_t top_;
  KvCache cache_;
  PromptScores scores_;
};

}  // namespace weft::serve
