#include "weft/train/gradient_tree.h"

#include <bit>

#include "weft/base/check.h"
#include "weft/device/memory_use.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

void add_each(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  for (size_t i = 0; i < to.size(); ++i) add_assign(to[i], from[i]);
}

// The values become a partial sum, or are added to one, and are zero for the next micro-batch: one pass over the memory.
void move_each(const std::vector<Tensor>& values, const std::vector<Tensor>& sums) {
  static const auto moved = fuse([](Expr value) { return std::array<Expr, 2>{value, 0.0f}; });
  for (size_t i = 0; i < sums.size(); ++i) moved.into({sums[i], values[i]}, values[i]);
}
void merge_each(const std::vector<Tensor>& values, const std::vector<Tensor>& sums) {
  static const auto merged = fuse([](Expr sum, Expr value) { return std::array<Expr, 2>{sum + value, 0.0f}; });
  for (size_t i = 0; i < sums.size(); ++i) merged.into({sums[i], values[i]}, sums[i], values[i]);
}

}  // namespace

bool GradientTree::is_node(int64_t first, int64_t count, int64_t n) {
  if (first < 0 || count < 1 || count > n - first) return false;
  const uint64_t width = std::bit_ceil(uint64_t(count));
  return uint64_t(first) % width == 0 && (uint64_t(count) == width || first + count == n);
}

void GradientTree::reserve(int64_t count) {
  const size_t needed = size_t(std::bit_width(uint64_t(count)) - 1);  // the most bits that are set in an index below count
  while (sums_.size() < needed) {
    std::vector<Tensor>& sum = sums_.emplace_back();
    for (const Tensor& value : values_) {
      const MemoryScope scope(value.device(), MemoryUse::gradients);
      sum.push_back(Tensor::empty(value.device(), value.shape()));
    }
  }
}

// The bits of the index are the live sums, its trailing ones those that this micro-batch completes.
void GradientTree::add(int64_t index, int64_t count, bool replay) {
  const int live = std::popcount(uint64_t(index)), merged = std::countr_one(uint64_t(index));
  if (index + 1 == count) {
    if (live > 0)
      run(ends_[live], replay, [&] {
        for (int i = live; i-- > 0;) add_each(values_, sums_[size_t(i)]);
      });
    return;
  }
  reserve(count);
  run(carries_[{live, merged}], replay, [&] {
    if (merged == 0) return move_each(values_, sums_[size_t(live)]);
    merge_each(values_, sums_[size_t(live - 1)]);
    for (int i = live - 2; i >= live - merged; --i) add_each(sums_[size_t(i)], sums_[size_t(i + 1)]);
  });
}

void GradientTree::finish(size_t value, int64_t count) {
  const NoGrad no_grad;
  for (int i = std::popcount(uint64_t(count - 1)); i-- > 0;) add_assign(values_[value], sums_[size_t(i)][value]);
}

void GradientTree::run(Replayed& launches, bool replay, const std::function<void()>& work) {
  const auto without_graph = [&] {
    const NoGrad no_grad;
    work();
  };
  replay ? void(launches.run(values_.front().device().stream(), without_graph)) : without_graph();
}

}  // namespace weft
