#include "weft/ops/elementwise/function.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>
#include <unordered_map>

#include "weft/expr/derivative.h"
#include "weft/expr/simplify.h"

namespace weft {

ElementwiseFunction::ElementwiseFunction(const expr::Graph& traced) : graph_(expr::simplify(traced)), used_(expr::inputs_used(graph_)) {}

const CompiledElementwise& ElementwiseFunction::compiled(const ElementwiseKernel& key) const {
  const std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels_)
    if (kernel->key == key) return *kernel;
  auto kernel = std::make_unique<CompiledElementwise>();
  kernel->key = key;
  static std::atomic<uint64_t> serial = 0;
  kernel->serial = ++serial;
  if (key.dialect == Dialect::c)
    kernel->program = expr::compile(graph_, key.sources, key.stores_last);
  else
    kernel->text = expr::emit(graph_, key.signature, key.dialect);
  return *kernels_.emplace_back(std::move(kernel));
}

std::shared_ptr<const ElementwiseFunction> ElementwiseFunction::derivative(const std::vector<bool>& wanted,
                                                                           const std::vector<bool>& arrived) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ElementwiseFunction>& found = derivatives_[{wanted, arrived}];
  if (!found) found = elementwise_function(expr::derivative(graph_, wanted, arrived));
  return found;
}

namespace {

// The functions used last. Looking one up stamps it with the time, under the shared lock; only adding one changes the map.
class FunctionCache {
 public:
  std::shared_ptr<const ElementwiseFunction> find(uint64_t hash, const expr::Graph& traced) {
    const std::shared_lock lock(mutex_);
    return found(hash, traced);
  }

  std::shared_ptr<const ElementwiseFunction> add(uint64_t hash, const expr::Graph& traced) {
    auto entry = std::make_unique<Entry>(traced, ++clock_);  // compiled before the lock is taken
    const std::unique_lock lock(mutex_);
    if (auto function = found(hash, traced)) return function;  // another thread was first
    if (by_hash_.size() >= kElementwiseFunctions)
      by_hash_.erase(
          std::min_element(by_hash_.begin(), by_hash_.end(), [](const auto& a, const auto& b) { return a.second->used < b.second->used; }));
    return by_hash_.emplace(hash, std::move(entry))->second->function;
  }

 private:
  struct Entry {
    expr::Graph traced;
    std::shared_ptr<const ElementwiseFunction> function;
    std::atomic<uint64_t> used;

    Entry(const expr::Graph& graph, uint64_t now) : traced(graph), function(std::make_shared<ElementwiseFunction>(graph)), used(now) {}
  };

  std::shared_ptr<const ElementwiseFunction> found(uint64_t hash, const expr::Graph& traced) {
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto at = begin; at != end; ++at)
      if (at->second->traced == traced) {
        at->second->used = ++clock_;
        return at->second->function;
      }
    return nullptr;
  }

  std::shared_mutex mutex_;
  std::atomic<uint64_t> clock_ = 0;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> by_hash_;
};

}  // namespace

std::shared_ptr<const ElementwiseFunction> elementwise_function(const expr::Graph& traced) {
  static FunctionCache* const cache = new FunctionCache;  // outlives every static that uses it
  const uint64_t hash = traced.hash();
  if (auto function = cache->find(hash, traced)) return function;
  return cache->add(hash, traced);
}

}  // namespace weft
