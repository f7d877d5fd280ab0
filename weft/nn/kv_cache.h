// The keys and values of the tokens a model has seen, so that a new token costs one step instead of all of them.
#pragma once

#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

struct KvCacheOptions {
  int64_t layers, batch, capacity, heads, head_dim;  // heads of keys and values
  DType dtype = DType::f32;
};

// Keys and values [batch, capacity, heads, head_dim] of each layer. Sequences may have different lengths. A KvPass adds tokens.
class KvCache {
 public:
  KvCache(Device& device, const KvCacheOptions& options);

  int64_t batch() const { return int64_t(lengths_.size()); }  // sequences held; at first all there is room for
  int64_t capacity() const { return options_.capacity; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // positions held, per sequence
  bool empty() const;

  // Drops all but the first `length` positions of every sequence.
  void truncate(int64_t length);

  // A cache of another capacity that holds a copy of the same positions.
  KvCache resized(int64_t capacity) const;

  // Sequences come and go. A new one is read into spare(), an empty cache of one sequence in the memory after the last
  // sequence of this one, and then joins; when one is removed, the last takes its place.
  KvCache spare() const;
  void join(const KvCache& spare);
  void remove(int64_t b, KvCache* spare = nullptr);  // `spare`: one that is being filled; it moves, too

  // Sequence b becomes the first `length` positions of sequence `row` of another cache of the same model.
  void copy_from(const KvCache& other, int64_t row, int64_t length, int64_t b);

 private:
  friend class KvPass;
  KvCache() = default;
  void check_closed() const;
  Tensor start() const { return start_.part(0, 0, batch()); }

  KvCacheOptions options_;
  std::vector<Tensor> keys_, values_;
  std::vector<int64_t> lengths_;
  Tensor start_;       // [batch], i32: lengths_ on the device, when the pass was opened
  bool open_ = false;  // a KvPass exists
};

// A forward pass over T new tokens of every sequence, the only way to add to a cache:
//
//   KvPass pass(cache, T);       // checks that they fit and writes start()
//   pass.append(layer, k, v);    // in each layer
//   pass.commit();               // the cache holds them from now on
//
// A pass that ends without commit() leaves the cache as it was. One pass of a cache is open at a time, and the cache must outlive it
// where it is. start() is always in the same memory, so the launches of a pass can be captured and replayed in another one.
//
// A pass over an empty cache need not read the cache, and attention has a faster kernel for that. On the CPU a position has the same bits
// either way, and whether the tokens before it came in the same pass or in earlier ones (docs/numerics.md).
class KvPass {
 public:
  KvPass(KvCache& cache, int64_t T);
  ~KvPass() { cache_.open_ = false; }
  KvPass(const KvPass&) = delete;
  KvPass& operator=(const KvPass&) = delete;

  const KvCache& cache() const { return cache_; }
  int64_t tokens() const { return tokens_; }  // T
  bool reads_cache() const { return tokens_ == 1 || !cache_.empty(); }
  Tensor start() const { return cache_.start(); }  // [batch], i32: position of the first new token

  // Writes k and v [batch, T, heads, head_dim] of the new tokens after each sequence's positions.
  void append(int64_t layer, const Tensor& k, const Tensor& v);
  Tensor keys(int64_t layer) const { return cache_.keys_[size_t(layer)].part(0, 0, cache_.batch()); }
  Tensor values(int64_t layer) const { return cache_.values_[size_t(layer)].part(0, 0, cache_.batch()); }

  // Keeps all T tokens, or the first `used[b]` of sequence b (what follows is right padding). Once.
  void commit();
  void commit(const std::vector<int64_t>& used);

 private:
  KvCache& cache_;
  int64_t tokens_;
  bool committed_ = false;
};

}  // namespace weft
