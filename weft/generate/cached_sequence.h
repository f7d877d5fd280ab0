// One sequence whose keys and values stay in memory between calls, such as a conversation that grows by a turn each time. A call gives
// all ids of the sequence; the longest prefix that equals the ids held is reused and only what follows it is computed.
//
//   CachedSequence kept(*model);
//   kept.read({1, 2, 3});           // computes three positions
//   kept.step(4);                   // one more
//   kept.read({1, 2, 3, 4, 9, 9});  // computes the last two
//
// On the CPU read() and the steps after it give the bits of a new cache: a position has one set of bits, however its tokens came
// (docs/numerics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/generate/decode_step.h"
#include "weft/models/model.h"

namespace weft {

class CachedSequence {
 public:
  explicit CachedSequence(const Model& model);  // the model must outlive it
  CachedSequence(const CachedSequence&) = delete;
  CachedSequence& operator=(const CachedSequence&) = delete;

  // The logits after the last of `ids`, valid until the next call. If the work is stopped, the cache keeps the prefix it had.
  std::span<const float> read(const std::vector<int32_t>& ids);
  // The logits after one more id.
  std::span<const float> step(int32_t id);

  int64_t reused() const { return reused_; }                 // positions of the last read() that were not computed
  const std::vector<int32_t>& ids() const { return held_; }  // of the positions in the cache
  int64_t capacity() const { return cache_ ? cache_->capacity() : 0; }
  void clear();  // forgets all ids; the memory stays

 private:
  int64_t first_computed(const std::vector<int32_t>& ids) const;
  Tensor compute(std::vector<int32_t> ids, int64_t first);
  void reserve(int64_t positions);
  std::span<const float> download(const Tensor& logits);

  const Model& model_;
  std::optional<KvCache> cache_;      // grows with the sequence, up to the model's context
  std::optional<DecodeStep> decode_;  // of cache_
  std::vector<int32_t> held_;
  std::vector<int32_t> read_;  // the ids of the last read(), and the logits after them
  std::vector<float> read_logits_, logits_;
  int64_t reused_ = 0;
};

}  // namespace weft
