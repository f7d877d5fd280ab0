#include "weft/generate/cached_sequence.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr int64_t kFirstPositions = 512;  // then the capacity doubles: a context of 128k positions would need gigabytes at once

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

CachedSequence::CachedSequence(const Model& model) : model_(model) {}

void CachedSequence::clear() {
  held_.clear();
  read_.clear();
  reused_ = 0;
  if (cache_) cache_->truncate(0);
}

// The first position that a pass over `ids` has to compute. The last one is always computed: its logits are wanted.
int64_t CachedSequence::first_computed(const std::vector<int32_t>& ids) const {
  return std::min(common_prefix(held_, ids), int64_t(ids.size()) - 1);
}

// Keeps the positions before `first`, computes those of `ids` from there on, and returns the logits of the last.
Tensor CachedSequence::compute(std::vector<int32_t> ids, int64_t first) {
  const auto n = int64_t(ids.size());
  held_.resize(size_t(first));
  if (cache_) cache_->truncate(first);
  reserve(n);
  const Tensor rest = Tensor::from_host(model_.device(), {1, n - first}, std::span<const int32_t>(ids).subspan(size_t(first)));
  KvPass pass(*cache_, n - first);
  const Tensor logits = model_.last_logits(rest, pass);
  pass.commit();
  held_ = std::move(ids);
  return logits;
}

std::span<const float> CachedSequence::read(const std::vector<int32_t>& ids) {
  check(!ids.empty(), "generate", "the sequence is empty");
  if (ids == read_ && common_prefix(held_, ids) == int64_t(ids.size())) {  // once more: the logits are known
    reused_ = int64_t(ids.size());
    held_.resize(ids.size());
    cache_->truncate(reused_);
    return read_logits_;
  }
  read_.clear();
  reused_ = first_computed(ids);
  const auto logits = download(compute(ids, reused_));
  read_logits_.assign(logits.begin(), logits.end());
  read_ = ids;
  return read_logits_;
}

std::span<const float> CachedSequence::step(int32_t id) {
  check(!held_.empty(), "generate", "a step follows read()");
  reserve(int64_t(held_.size()) + 1);
  const Tensor& logits = (*decode_)({id});
  held_.push_back(id);
  return download(logits);
}

void CachedSequence::reserve(int64_t positions) {
  const int64_t context = model_.config().max_positions;
  check(positions <= context, "generate", "a sequence of ", positions, " tokens does not fit in the model's context of ", context);
  if (positions <= capacity()) return;
  const int64_t wanted = std::min(context, std::max({positions, 2 * capacity(), kFirstPositions}));
  decode_.reset();  // its captured launches write into the old memory
  cache_.emplace(cache_ ? cache_->resized(wanted) : model_.make_cache(1, wanted));
  decode_.emplace(model_, *cache_);
}

std::span<const float> CachedSequence::download(const Tensor& logits) {
  logits_.resize(size_t(logits.numel()));
  logits.read(std::span(logits_));
  return logits_;
}

}  // namespace weft
