// Computes the log-probabilities of a prompt's own tokens in chunks, so that decoding steps can run in between.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "weft/models/model.h"
#include "weft/serve/job.h"

namespace weft::serve {

// Computes the log-probability of each token from the second on, given those before it, and of the `top` most likely tokens at each place.
// The values have the bits of score() (weft/generate/score.h), with the named adapter or, for "", without one.
class PromptScorer {
 public:
  // The model must outlive it. `pool` must have free pages for all of `ids`; the destructor releases them.
  PromptScorer(const Model& model, std::shared_ptr<KvPool> pool, std::shared_ptr<const std::vector<int32_t>> ids, int64_t top,
               std::string_view adapter);

  bool done() const { return scores_.size() + 1 >= ids_->size(); }
  void step();                                                // computes the next chunk; only if not done()
  PromptScores take() { return std::exchange(scores_, {}); }  // only if done()

 private:
  const Model& model_;
  const std::shared_ptr<const std::vector<int32_t>> ids_;
  const int64_t top_;
  KvCache cache_;
  PromptScores scores_;
};

}  // namespace weft::serve
