#include "weft/nn/kv_cache.h"

#include <algorithm>

#include "weft/ops/copy/copy.h"
#include "weft/ops/kv_append/kv_append.h"

namespace weft {
namespace {

constexpr const char* kWhere = "kv_cache";

}  // namespace

KvCache::KvCache(Device& device, const KvCacheOptions& o) : options_(o), lengths_(size_t(std::max<int64_t>(0, o.batch)), 0) {
  check(o.layers >= 0 && o.batch >= 1 && o.capacity >= 1 && o.heads >= 1 && o.head_dim >= 1, kWhere, "cannot hold ", o.layers,
        " layers of ", o.batch, " sequences of ", o.capacity, " positions of ", o.heads, " heads of ", o.head_dim);
  for (int64_t layer = 0; layer < o.layers; ++layer)
    for (std::vector<Tensor>* list : {&keys_, &values_})
      list->push_back(Tensor::empty(device, {o.batch, o.capacity, o.heads, o.head_dim}, o.dtype));
  start_ = Tensor::empty(device, {o.batch}, DType::i32);
}

bool KvCache::empty() const {
  return std::all_of(lengths_.begin(), lengths_.end(), [](int64_t length) { return length == 0; });
}

void KvCache::check_closed() const { check(!open_, kWhere, "a pass is open: commit it or let it end first"); }

void KvCache::truncate(int64_t length) {
  check_closed();
  check(length >= 0, kWhere, "cannot be cut to ", length, " positions");
  for (int64_t& held : lengths_) held = std::min(held, length);
}

KvCache KvCache::resized(int64_t capacity) const {
  check_closed();
  for (int64_t length : lengths_) check(length <= capacity, kWhere, "holds ", length, " positions, cannot be resized to ", capacity);
  KvCacheOptions options = options_;
  options.capacity = capacity;
  KvCache other(start_.device(), options);
  other.lengths_ = lengths_;
  const auto copy_held = [&](const Tensor& from, const Tensor& to) {
    for (int64_t b = 0; b < batch(); ++b)
      if (const int64_t length = lengths_[size_t(b)]; length > 0)
        copy(from.part(0, b, b + 1).part(1, 0, length), to.part(0, b, b + 1).part(1, 0, length));
  };
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    copy_held(keys_[layer], other.keys_[layer]);
    copy_held(values_[layer], other.values_[layer]);
  }
  return other;
}

KvCache KvCache::spare() const {
  check_closed();
  check(batch() < options_.batch, kWhere, "has room for ", options_.batch, " sequences and holds as many");
  KvCache one;
  one.options_ = options_;
  one.options_.batch = 1;
  one.lengths_ = {0};
  one.start_ = start_.part(0, batch(), batch() + 1);
  for (const Tensor& keys : keys_) one.keys_.push_back(keys.part(0, batch(), batch() + 1));
  for (const Tensor& values : values_) one.values_.push_back(values.part(0, batch(), batch() + 1));
  return one;
}

void KvCache::join(const KvCache& spare) {
  check_closed();
  const auto follows = [&] {
    const View &mine = keys_.front().view(), &other = spare.keys_.front().view();
    return other.buffer == mine.buffer && other.offset == mine.offset + batch() * mine.strides[0] * size_of(mine.dtype);
  };
  check(spare.batch() == 1 && batch() < options_.batch && (keys_.empty() || follows()), kWhere, "can be joined by its own spare alone");
  lengths_.push_back(spare.lengths_[0]);
}

void KvCache::remove(int64_t b, KvCache* spare) {
  check_closed();
  check(0 <= b && b < batch(), kWhere, "holds ", batch(), " sequences, there is no number ", b);
  const int64_t last = batch() - 1, length = lengths_.back();
  if (b != last && length > 0)
    for (const std::vector<Tensor>* list : {&keys_, &values_})
      for (const Tensor& x : *list) copy(x.part(0, last, last + 1).part(1, 0, length), x.part(0, b, b + 1).part(1, 0, length));
  lengths_[size_t(b)] = length;
  lengths_.pop_back();
  if (!spare) return;
  KvCache moved = this->spare();
  moved.copy_from(*spare, 0, spare->lengths_[0], 0);
  *spare = std::move(moved);
}

void KvCache::copy_from(const KvCache& other, int64_t row, int64_t length, int64_t b) {
  check_closed();
  check(0 <= row && row < other.batch() && 0 <= b && b < batch(), kWhere, "cannot copy sequence ", row, " of ", other.batch(),
        " to sequence ", b, " of ", batch());
  check(0 <= length && length <= other.lengths_[size_t(row)] && length <= capacity(), kWhere, "cannot copy ", length, " of ",
        other.lengths_[size_t(row)], " positions into a cache of ", capacity());
  if (length > 0)
    for (size_t layer = 0; layer < keys_.size(); ++layer) {
      copy(other.keys_[layer].part(0, row, row + 1).part(1, 0, length), keys_[layer].part(0, b, b + 1).part(1, 0, length));
      copy(other.values_[layer].part(0, row, row + 1).part(1, 0, length), values_[layer].part(0, b, b + 1).part(1, 0, length));
    }
  lengths_[size_t(b)] = length;
}

KvPass::KvPass(KvCache& cache, int64_t T) : cache_(cache), tokens_(T) {
  cache.check_closed();
  std::vector<int32_t> start;
  for (int64_t length : cache.lengths()) {
    check(T >= 1 && T <= cache.capacity() - length, kWhere, "has room for ", cache.capacity(), " positions and holds ", length, "; ", T,
          " more do not fit");
    start.push_back(int32_t(length));
  }
  cache.start().write(start);
  cache.open_ = true;
}

void KvPass::append(int64_t layer, const Tensor& k, const Tensor& v) {
  check(0 <= layer && layer < int64_t(cache_.keys_.size()), kWhere, "has no layer ", layer);
  const Shape expected{cache_.batch(), tokens_, cache_.options_.heads, cache_.options_.head_dim};
  for (const Tensor* x : {&k, &v})
    check(x->shape() == expected, kWhere, "takes new keys and values of shape ", expected, ", got ", x->shape());
  const Tensor all_keys = keys(layer), all_values = values(layer), at = start();
  kv_append(k.device().stream(),
            {.k = k.view(), .v = v.view(), .start = at.view(), .k_cache = all_keys.mut_view(), .v_cache = all_values.mut_view()});
}

void KvPass::commit() { commit(std::vector<int64_t>(size_t(cache_.batch()), tokens_)); }

void KvPass::commit(const std::vector<int64_t>& used) {
  check(!committed_, kWhere, "this pass is committed already");
  check(int64_t(used.size()) == cache_.batch(), kWhere, "holds ", cache_.batch(), " sequences, got ", used.size(), " lengths");
  for (int64_t n : used) check(0 <= n && n <= tokens_, kWhere, "cannot keep ", n, " of ", tokens_, " new positions");
  for (size_t b = 0; b < used.size(); ++b) cache_.lengths_[b] += used[b];
  committed_ = true;
}

}  // namespace weft
