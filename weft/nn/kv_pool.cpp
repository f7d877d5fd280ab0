#include "weft/nn/kv_pool.h"

#include <algorithm>
#include <utility>

#include "weft/ops/copy/copy.h"

namespace weft {
namespace {

constexpr const char* kWhere = "kv_pool";

// Copies positions [0, count) of a page to another page.
void copy_page(const KvPool& from, int32_t source, const KvPool& to, int32_t target, int64_t count) {
  const auto part = [=](const Tensor& store, int32_t page) { return store.part(0, page, page + 1).part(1, 0, count); };
  for (int64_t layer = 0; layer < from.options().layers; ++layer) {
    copy(part(from.keys(layer), source), part(to.keys(layer), target));
    copy(part(from.values(layer), source), part(to.values(layer), target));
  }
}

}  // namespace

KvPool::KvPool(Device& device, const KvPoolOptions& o) : device_(device), options_(o), references_(size_t(std::max<int64_t>(0, o.pages))) {
  check(o.layers >= 0 && o.pages >= 1 && o.heads >= 1 && o.head_dim >= 1, kWhere, "cannot hold ", o.pages, " pages of ", o.layers,
        " layers of ", o.heads, " heads of ", o.head_dim);
  check(o.pages <= INT32_MAX, kWhere, "cannot number ", o.pages, " pages");
  for (int64_t layer = 0; layer < o.layers; ++layer)
    for (std::vector<Tensor>* list : {&keys_, &values_})
      list->push_back(Tensor::empty(device, {o.pages, kPagePositions, o.heads, o.head_dim}, o.dtype));
  for (int64_t page = o.pages; page-- > 0;) free_.push_back(int32_t(page));
}

int64_t KvPool::bytes() const {
  return 2 * options_.layers * options_.pages * kPagePositions * options_.heads * options_.head_dim * size_of(options_.dtype);
}

// Layer by layer, so that only one layer at a time exists twice. If it throws, all pages are unchanged.
void KvPool::grow(int64_t pages) {
  check(pages >= options_.pages && pages <= INT32_MAX, kWhere, "a pool of ", options_.pages, " pages cannot grow to ", pages);
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    const auto larger = [&](const Tensor& store) {
      const int64_t stored = store.shape()[0];
      Tensor grown = Tensor::empty(device_, {std::max(stored, pages), kPagePositions, options_.heads, options_.head_dim}, options_.dtype);
      copy(store, grown.part(0, 0, stored));
      return grown;
    };
    Tensor keys = larger(keys_[layer]), values = larger(values_[layer]);
    keys_[layer] = std::move(keys), values_[layer] = std::move(values);
  }
  references_.resize(size_t(pages));
  for (int64_t page = pages; page-- > options_.pages;) free_.push_back(int32_t(page));
  options_.pages = pages;
}

int32_t KvPool::take() {
  const int32_t page = free_.back();
  free_.pop_back();
  references_[size_t(page)] = 1;
  return page;
}

void KvPool::release(int32_t page) {
  if (--references_[size_t(page)] == 0) free_.push_back(page);
}

void KvSequence::swap(KvSequence& other) noexcept {
  pool_.swap(other.pool_);
  pages_.swap(other.pages_);
  std::swap(length_, other.length_);
  std::swap(adapter_, other.adapter_);
}

KvSequence KvSequence::prefix(int64_t length) const {
  check(0 <= length && length <= length_, kWhere, "a sequence of ", length_, " positions has no first ", length);
  KvSequence part(pool_, adapter_);
  part.pages_.assign(pages_.begin(), pages_.begin() + pages_for(length));
  for (int32_t page : part.pages_) pool_->refer(page);
  part.length_ = length;
  return part;
}

KvSequence KvSequence::copied_to(const std::shared_ptr<KvPool>& pool) const {
  KvSequence copied(pool, adapter_);
  copied.prepare(length_);
  for (size_t i = 0; i < copied.pages_.size(); ++i)
    copy_page(*pool_, pages_[i], *pool, copied.pages_[i], std::min(kPagePositions, length_ - int64_t(i) * kPagePositions));
  copied.length_ = length_;
  return copied;
}

void KvSequence::truncate(int64_t length) {
  length_ = std::min(length_, length);
  while (int64_t(pages_.size()) > pages_for(length_)) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

bool KvSequence::writes_shared_page() const {
  return length_ % kPagePositions != 0 && pool_->references(pages_[size_t(length_ / kPagePositions)]) > 1;
}

int64_t KvSequence::missing(int64_t tokens) const {
  if (tokens == 0) return 0;
  return std::max<int64_t>(0, pages_for(length_ + tokens) - int64_t(pages_.size())) + (writes_shared_page() ? 1 : 0);
}

void KvSequence::prepare(int64_t tokens) {
  check(missing(tokens) <= pool_->free_pages(), kWhere, missing(tokens), " pages are needed and ", pool_->free_pages(), " of ",
        pool_->pages(), " are free");
  if (tokens > 0 && writes_shared_page()) copy_last_page();
  while (int64_t(pages_.size()) < pages_for(length_ + tokens)) pages_.push_back(pool_->take());
}

void KvSequence::copy_last_page() {
  KvSequence own(pool_);  // releases the new page if the copy throws, else the shared one
  own.pages_.push_back(pool_->take());
  int32_t& last = pages_[size_t(length_ / kPagePositions)];
  copy_page(*pool_, last, *pool_, own.pages_[0], length_ % kPagePositions);
  std::swap(last, own.pages_[0]);
}

void KvSequence::commit(int64_t tokens) {
  length_ += tokens;
  truncate(length_);
}

}  // namespace weft
