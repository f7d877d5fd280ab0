// The KV cache of a batch of sequences, in pages of a pool (weft/nn/kv_pool.h).
#pragma once

#include <vector>

#include "weft/nn/kv_pool.h"
#include "weft/nn/lora.h"

namespace weft {

struct KvCacheOptions {
  int64_t layers, batch, capacity, heads, head_dim;  // heads of keys and values
  DType dtype = DType::f32;
};

// Sequences of different lengths in one pool. A KvPass adds tokens to all of them.
class KvCache {
 public:
  // `batch` empty sequences in a new pool, which has pages for `capacity` positions of each.
  KvCache(Device& device, const KvCacheOptions& options);
  // An empty cache for up to `room` sequences of at most `capacity` positions each.
  KvCache(std::shared_ptr<KvPool> pool, int64_t room, int64_t capacity);

  int64_t batch() const { return int64_t(sequences_.size()); }
  int64_t capacity() const { return capacity_; }
  const std::shared_ptr<KvPool>& pool() const { return pool_; }
  const KvSequence& sequence(int64_t b) const { return sequences_[size_t(b)]; }
  std::vector<int64_t> lengths() const;  // positions held, per sequence
  bool empty() const;

  // Drops all but the first `length` positions of every sequence.
  void truncate(int64_t length);

  // Raises the limit to `capacity` positions of each sequence. The pages still come from the pool.
  void grow(int64_t capacity);

  // Adds and removes sequences without copies. A new sequence becomes the last row, or row `at`.
  void join(KvSequence sequence) { join(std::move(sequence), batch()); }
  void join(KvSequence sequence, int64_t at);
  void join() { join(KvSequence(pool_)); }  // an empty sequence
  KvSequence remove(int64_t b);

  // The number of pages that a pass over `tokens` new tokens would take from the pool.
  int64_t missing(int64_t tokens) const;

 private:
  friend class KvPass;
  void check_closed() const;
  void prepare(int64_t tokens);
  void upload_pages();
  Tensor start() const { return start_.part(0, 0, batch()); }
  Tensor pages() const { return pages_.part(0, 0, batch()); }

  std::shared_ptr<KvPool> pool_;
  int64_t capacity_ = 0;
  std::vector<KvSequence> sequences_;
  Tensor start_;       // [room], i32: on the device, the lengths when the pass was opened
  Tensor pages_;       // [room, pages_for(capacity)], i32: on the device, the page tables; -1: no page
  bool stale_ = true;  // pages_ differs from the sequences' pages
  bool open_ = false;  // a KvPass exists
};

// A forward pass over T new tokens of every sequence, the only way to add to a cache:
//
//   KvPass pass(cache, T);       // checks that the tokens fit, takes pages for them, writes start() and pages()
//   pass.append(layer, k, v);    // in each layer
//   pass.commit();               // the tokens are now part of the cache
//
// A pass destroyed without commit() adds no tokens; the sequences keep the pages it took for them. A cache has at most one open pass and
// must not move while it is open. start() and pages() stay in the same memory, so the launches of a pass can be captured and replayed.
//
// A pass over an empty cache does not read the cache and uses a faster attention kernel. A position has the same bits either way, and
// whether the tokens before it came in the same pass or in earlier ones (docs/numerics.md).
class KvPass {
 public:
  KvPass(KvCache& cache, int64_t T);
  ~KvPass() {
    if (!committed_) cache_.open_ = false;
  }
  KvPass(const KvPass&) = delete;
  KvPass& operator=(const KvPass&) = delete;

  const KvCache& cache() const { return cache_; }
  int64_t tokens() const { return tokens_; }  // T
  bool reads_cache() const { return tokens_ == 1 || !cache_.empty(); }
  Tensor start() const { return cache_.start(); }  // [batch], i32: position of the first new token
  Tensor pages() const { return cache_.pages(); }  // [batch, pages of a sequence], i32 (weft/ops/kv_pages.h)

  // The named adapters of the sequences (weft/nn/lora.h); empty if none has one.
  std::vector<AdapterRows> adapters() const;

  // Writes k and v [batch, T, heads, head_dim] of the new tokens after each sequence's positions.
  void append(int64_t layer, const Tensor& k, const Tensor& v);
  const Tensor& keys(int64_t layer) const { return cache_.pool_->keys(layer); }
  const Tensor& values(int64_t layer) const { return cache_.pool_->values(layer); }

  // Ends the pass and keeps all T tokens, or the first `used[b]` of sequence b (the rest is right padding).
  void commit();
  void commit(const std::vector<int64_t>& used);

 private:
  KvCache& cache_;
  int64_t tokens_;
  bool committed_ = false;
};

}  // namespace weft
