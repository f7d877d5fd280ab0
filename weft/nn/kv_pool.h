// Pages of keys and values that the sequences of one model share. A page holds kPagePositions positions, in every layer.
//
//   auto pool = std::make_shared<KvPool>(device, KvPoolOptions{.layers = 16, .pages = 64, .heads = 8, .head_dim = 64});
//   KvSequence a(pool);
//   a.prepare(100);                // two pages, to be written
//   a.commit(100);
//   KvSequence b = a.prefix(80);   // the same two pages
//   b.prepare(1);                  // position 80 is in the second one, which a has, too: b gets a copy of it
//
// A page belongs to the sequences that refer to it, and is free again when the last of them is gone. The memory is allocated once, unless
// grow() adds pages, which leaves the numbers of the pages in use as they are.
#pragma once

#include <memory>
#include <vector>

#include "weft/ops/kv_pages.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Every device's tile of keys is a whole number of pages, or lies within one; and a prefix is shared to the last whole page.
inline constexpr int64_t kPagePositions = kPageMultiple;
inline int64_t pages_for(int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

struct KvPoolOptions {
  int64_t layers, pages, heads, head_dim;  // heads of keys and values
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

  // Grows to `pages` pages: the tensors of all layers are replaced by larger ones with the same contents. Not while a pass is open.
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
  std::vector<int32_t> references_, free_;  // by page; pages without references
};

// The positions of one sequence: the pages that hold them in order, and their number. A copy shares all pages. `adapter`: the number of the
// named one with which they are computed (Model::adapter); -1: none.
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

  KvSequence prefix(int64_t length) const;  // the first positions, in the same pages
  KvSequence copied_to(const std::shared_ptr<KvPool>& pool) const;
  void truncate(int64_t length);  // gives back the pages after them

  // The number of pages that prepare(tokens) takes from the pool.
  int64_t missing(int64_t tokens) const;
  // Makes room for the next `tokens` positions, in pages of this sequence alone: a shared page is copied before it is written. Throws, and
  // changes nothing, if the pool has too few free pages.
  void prepare(int64_t tokens);
  // Declares the next `tokens` positions written, and returns the pages after them to the pool.
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
