// The keys and values of the tokens a model has seen, so that a new token costs one step instead of all of them.
#pragma once

#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

struct KvCacheOptions {
  int64_t layers, batch, capacity, heads, head_dim;  // heads of keys and values
  DType dtype = DType::f32;
};

// For each layer keys and values [batch, capacity, heads, head_dim]. Sequences may have different lengths.
//
// A forward pass of T new tokens per sequence: begin(T), then append() in each layer, then advance(). Where the sequences
// stand is on the device, always in the same place: the launches of a pass may be captured, and replayed after begin(T).
class KvCache {
 public:
  KvCache(Device& device, const KvCacheOptions& options);

  int64_t batch() const { return int64_t(lengths_.size()); }  // sequences held; at first all there is room for
  int64_t capacity() const { return options_.capacity; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // positions held, per sequence
  bool empty() const;

  // Checks that T more positions fit after each sequence, and makes start() hold the lengths. Again before the pass has
  // ended it does nothing.
  void begin(int64_t T);
  Tensor start() const { return start_.part(0, 0, batch()); }  // [batch], i32: where the new tokens stand

  // k and v [batch, T, heads, head_dim] of the new tokens go after each sequence's positions.
  void append(int64_t layer, const Tensor& k, const Tensor& v);
  Tensor keys(int64_t layer) const { return keys_[size_t(layer)].part(0, 0, batch()); }
  Tensor values(int64_t layer) const { return values_[size_t(layer)].part(0, 0, batch()); }

  // Keeps the first `used[b]` of the new tokens of sequence b (right padding is forgotten), or all T.
  void advance(const std::vector<int64_t>& used);
  void advance(int64_t T);

  // Forgets all but the first `length` positions of every sequence.
  void truncate(int64_t length);

  // Sequences come and go. A new one is read into spare(), an empty cache of one sequence in the memory after the last
  // of this one, and then joins; where one is removed the last takes its place.
  KvCache spare() const;
  void join(const KvCache& spare);
  void remove(int64_t b);

 private:
  KvCache() = default;

  KvCacheOptions options_;
  std::vector<Tensor> keys_, values_;
  std::vector<int64_t> lengths_;
  Tensor start_;
  int64_t incoming_ = 0;  // T of the pass that has begun
};

}  // namespace weft
