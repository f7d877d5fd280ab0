#include "weft/nn/kv_cache.h"

#include <algorithm>

#include "weft/ops/kv_append/kv_append.h"

namespace weft {
namespace {

constexpr const char* kWhere = "kv_cache";

std::shared_ptr<KvPool> own_pool(Device& device, const KvCacheOptions& o) {
  check(o.layers >= 0 && o.batch >= 1 && o.capacity >= 1 && o.heads >= 1 && o.head_dim >= 1, kWhere, "cannot hold ", o.layers,
        " layers of ", o.batch, " sequences of ", o.capacity, " positions of ", o.heads, " heads of ", o.head_dim);
  return std::make_shared<KvPool>(
      device,
      KvPoolOptions{
          .layers = o.layers, .pages = o.batch * pages_for(o.capacity), .heads = o.heads, .head_dim = o.head_dim, .dtype = o.dtype});
}

}  // namespace

KvCache::KvCache(Device& device, const KvCacheOptions& o) : KvCache(own_pool(device, o), o.batch, o.capacity) {
  for (int64_t b = 0; b < o.batch; ++b) join();
}

KvCache::KvCache(std::shared_ptr<KvPool> pool, int64_t room, int64_t capacity) : pool_(std::move(pool)), capacity_(capacity) {
  check(room >= 1 && capacity >= 1, kWhere, "cannot hold ", room, " sequences of ", capacity, " positions");
  start_ = Tensor::empty(pool_->device(), {room}, DType::i32);
  pages_ = Tensor::empty(pool_->device(), {room, pages_for(capacity)}, DType::i32);
}

std::vector<int64_t> KvCache::lengths() const {
  std::vector<int64_t> lengths;
  for (const KvSequence& sequence : sequences_) lengths.push_back(sequence.length());
  return lengths;
}

bool KvCache::empty() const {
  return std::ranges::all_of(sequences_, [](const KvSequence& sequence) { return sequence.length() == 0; });
}

void KvCache::check_closed() const { check(!open_, kWhere, "a pass is open: commit it or let it end first"); }

void KvCache::truncate(int64_t length) {
  check_closed();
  check(length >= 0, kWhere, "cannot be cut to ", length, " positions");
  for (KvSequence& sequence : sequences_) sequence.truncate(length);
}

void KvCache::grow(int64_t capacity) {
  check_closed();
  check(capacity >= capacity_, kWhere, "a cache of ", capacity_, " positions cannot grow to ", capacity);
  pages_ = Tensor::empty(pool_->device(), {start_.numel(), pages_for(capacity)}, DType::i32);
  capacity_ = capacity;
  stale_ = true;
}

void KvCache::join(KvSequence sequence, int64_t at) {
  check_closed();
  check(batch() < start_.numel(), kWhere, "is full: it has room for ", start_.numel(), " sequences");
  check(sequence.pool() == pool_, kWhere, "accepts only sequences of its own pool");
  check(sequence.length() <= capacity_, kWhere, "has room for ", capacity_, " positions, the sequence has ", sequence.length());
  check(0 <= at && at <= batch(), kWhere, "holds ", batch(), " sequences, cannot be joined at ", at);
  sequences_.insert(sequences_.begin() + at, std::move(sequence));
  stale_ = true;
}

KvSequence KvCache::remove(int64_t b) {
  check_closed();
  check(0 <= b && b < batch(), kWhere, "holds ", batch(), " sequences, there is no number ", b);
  KvSequence removed = std::move(sequences_[size_t(b)]);
  sequences_.erase(sequences_.begin() + b);
  stale_ = true;
  return removed;
}

int64_t KvCache::missing(int64_t tokens) const {
  int64_t pages = 0;
  for (const KvSequence& sequence : sequences_) pages += sequence.missing(tokens);
  return pages;
}

void KvCache::prepare(int64_t tokens) {
  std::vector<int32_t> start;
  for (KvSequence& sequence : sequences_) {
    stale_ |= sequence.missing(tokens) > 0;
    sequence.prepare(tokens);
    start.push_back(int32_t(sequence.length()));
  }
  this->start().write(start);
  if (stale_) upload_pages();
}

void KvCache::upload_pages() {
  const size_t width = size_t(pages_.shape()[1]);
  std::vector<int32_t> table(sequences_.size() * width, -1);
  for (size_t b = 0; b < sequences_.size(); ++b) std::ranges::copy(sequences_[b].pages(), table.begin() + std::ptrdiff_t(b * width));
  pages().write(table);
  stale_ = false;
}

KvPass::KvPass(KvCache& cache, int64_t T) : cache_(cache), tokens_(T) {
  cache.check_closed();
  for (const KvSequence& sequence : cache.sequences_)
    check(T >= 1 && T <= cache.capacity() - sequence.length(), kWhere, "has room for ", cache.capacity(), " positions and holds ",
          sequence.length(), "; ", T, " more do not fit");
  cache.prepare(T);
  cache.open_ = true;
}

std::vector<AdapterRows> KvPass::adapters() const {
  std::vector<AdapterRows> rows;
  bool some = false;
  for (int64_t b = 0; b < cache_.batch(); ++b) {
    const int adapter = cache_.sequence(b).adapter();
    some |= adapter >= 0;
    if (rows.empty() || rows.back().adapter != adapter) rows.push_back({adapter, b, 0});
    ++rows.back().count;
  }
  return some ? rows : std::vector<AdapterRows>();
}

void KvPass::append(int64_t layer, const Tensor& k, const Tensor& v) {
  const KvPoolOptions& o = cache_.pool_->options();
  check(0 <= layer && layer < o.layers, kWhere, "has no layer ", layer);
  const Shape expected{cache_.batch(), tokens_, o.heads, o.head_dim};
  for (const Tensor* x : {&k, &v})
    check(x->shape() == expected, kWhere, "takes new keys and values of shape ", expected, ", got ", x->shape());
  const Tensor at = start(), table = pages();
  kv_append(k.device().stream(), {.k = k.view(),
                                  .v = v.view(),
                                  .start = at.view(),
                                  .k_cache = keys(layer).mut_view(),
                                  .v_cache = values(layer).mut_view(),
                                  .pages = table.view()});
}

void KvPass::commit() { commit(std::vector<int64_t>(size_t(cache_.batch()), tokens_)); }

void KvPass::commit(const std::vector<int64_t>& used) {
  check(!committed_, kWhere, "this pass is committed already");
  check(int64_t(used.size()) == cache_.batch(), kWhere, "holds ", cache_.batch(), " sequences, got ", used.size(), " lengths");
  for (int64_t n : used) check(0 <= n && n <= tokens_, kWhere, "cannot keep ", n, " of ", tokens_, " new positions");
  for (size_t b = 0; b < used.size(); ++b) cache_.sequences_[b].commit(used[b]);
  committed_ = true;
  cache_.open_ = false;
}

}  // namespace weft
