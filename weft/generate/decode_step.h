// One decoding step of every sequence in a cache: ids in, logits out. If the device captures graphs, a step of a batch size seen before
// replays the launches of that step, as long as the logits of all these sizes take at most kMostLogits bytes: the size that was not used
// for longest is captured anew.
#pragma once

#include <map>
#include <vector>

#include "weft/device/replayed.h"
#include "weft/models/model.h"

namespace weft {

class DecodeStep {
 public:
  // Both must outlive the step.
  DecodeStep(const Model& model, KvCache& cache);

  // newest: one id per sequence of the cache. The logits [batch, vocabulary] are valid until the next step.
  const Tensor& operator()(const std::vector<int32_t>& newest);
  // The same within a pass of one token that the caller has opened and commits.
  const Tensor& operator()(KvPass& pass, const std::vector<int32_t>& newest);
  // Drops what was captured: the memory of the cache has changed (KvPool::grow, KvCache::grow).
  void forget();
  // The greedy choice of the last step's rows, [batch] (weft/ops/sample), if the device makes it; else undefined.
  const Tensor& best() const { return best_; }

  static constexpr int64_t kMostLogits = int64_t(1) << 30;

 private:
  struct CapturedStep {
    uint64_t used = 0;
    Tensor ids, logits, best;
    std::vector<AdapterRows> adapters;
    Replayed replayed;
  };

  CapturedStep& step_of(int64_t batch);

  const Model& model_;
  KvCache& cache_;
  Tensor best_;
  uint64_t uses_ = 0;
  std::map<int64_t, CapturedStep> steps_;  // by number of sequences
};

}  // namespace weft
