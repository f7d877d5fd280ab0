// A pool of KV cache pages shared by the sequences of one model. A page holds kPagePositions positions of every layer.
//
//   auto pool = std::make_shared<KvPool>(device, KvPoolOptions{.layers = 16, .pages = 64, .heads = 8, .head_dim = 64});
//   KvSequence a(pool);
//   a.prepare(100);                // takes two pages
//   a.commit(100);
//   KvSequence b = a.prefix(80);   // shares the two pages
//   b.prepare(1);                  // position 80 is in the second page, which a shares: b gets a copy of it (copy on write)
//
// Pages are reference counted: a page is free again when no sequence refers to it. The memory is allocated once; grow() adds pages and
// keeps the numbers of existing ones.
#pragma once

#include <memory>
#include <vector>

#include "weft/ops/kv_pages.h"
#include "weft/tensor/tensor.h"

namespace weft {

// On every device a tile of keys is a whole number of pages or lies within one page.
inline constexpr int64_t kPagePositions = kPageMultiple;
inline int64_t pages_for(int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

struct KvPoolOptions {
  int64_t layers, pages, heads, head_dim;  // heads: of keys and values
  DType dtype = DType::f32;
};

class KvPool {
 public:
  KvPool(Device& device, const KvPoolOptions& options);

  Device& device() const { return device_; }
  const KvPoolOptions& options() const { return options_; }
  int64_t pages() const { return options_.pages; }
  int64_t free_pages() const { return int64_t(free_.size()); }
  int64_t references(int32_t page) const { return references_[size_t(page)]; }
  int64_t bytes() const;

  // Grows to `pages` pages: replaces the tensors of all layers by larger ones with the same contents. Not while a KvPass is open.
  void grow(int64_t pages);

  // The keys and values of one layer, [pages, kPagePositions, heads, head_dim].
  const Tensor& keys(int64_t layer) const { return keys_[size_t(layer)]; }
  const Tensor& values(int64_t layer) const { return values_[size_t(layer)]; }

 private:
  friend class KvSequence;
  int32_t take();
  void refer(int32_t page) { ++references_[size_t(page)]; }
  void release(int32_t page);

  Device& device_;
  KvPoolOptions options_;
  std::vector<Tensor> keys_, values_;
  std::vector<int32_t> references_, free_;  // by page; pages that have none
};

// The KV cache of one sequence: its pages in order and its length. A copy shares all pages. `adapter`: the number of the named adapter with
// which the keys and values are computed (Model::adapter); -1: none.
class KvSequence {
 public:
  explicit KvSequence(std::shared_ptr<KvPool> pool, int adapter = -1) : pool_(std::move(pool)), adapter_(adapter) {}
  ~KvSequence() { truncate(0); }
  KvSequence(const KvSequence& other) : KvSequence(other.prefix(other.length_)) {}
  KvSequence(KvSequence&& other) noexcept { swap(other); }
  KvSequence& operator=(KvSequence other) noexcept {
    swap(other);
    return *this;
  }
  void swap(KvSequence& other) noexcept;

  const std::shared_ptr<KvPool>& pool() const { return pool_; }
  int64_t length() const { return length_; }
  int adapter() const { return adapter_; }
  const std::vector<int32_t>& pages() const { return pages_; }

  KvSequence prefix(int64_t length) const;  // the first `length` positions, in shared pages
  KvSequence copied_to(const std::shared_ptr<KvPool>& pool) const;
  void truncate(int64_t length);  // drops the positions from `length` on and releases their pages

  // The number of pages that prepare(tokens) would take from the pool.
  int64_t missing(int64_t tokens) const;
  // Makes room for the next `tokens` positions in pages that no other sequence shares: a shared page is copied. If the pool has too few
  // free pages, it throws and nothing changes.
  void prepare(int64_t tokens);
  // Adds `tokens` positions, which have been written, to the length, and releases prepared pages that were not needed.
  void commit(int64_t tokens);

 private:
  bool writes_shared_page() const;
  void copy_last_page();

  std::shared_ptr<KvPool> pool_;
  std::vector<int32_t> pages_;
  int64_t length_ = 0;
  int adapter_ = -1;
};

}  // namespace weft
