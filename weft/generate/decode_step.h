// One decoding step of every sequence in a cache: ids in, logits out. If the device captures graphs, the launches are captured once per
// batch size and replayed. The logits of all captured sizes take at most kMostLogits bytes; beyond that the least recently used size is
// dropped and captured again when it is needed.
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
  // The same in a pass of one token that the caller opens and commits.
  const Tensor& operator()(KvPass& pass, const std::vector<int32_t>& newest);
  // Drops all captured steps. Required after the cache's memory has moved (KvPool::grow, KvCache::grow).
  void forget();
  // The greedy tokens of the last step, [batch] (weft/ops/sample), if the device chooses them; else undefined.
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
