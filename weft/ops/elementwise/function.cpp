#include "weft/ops/elementwise/function.h"

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
  if (key.dialect == Dialect::c) kernel->program = expr::compile(graph_, key.sources, key.stores_last);
  return *kernels_.emplace_back(std::move(kernel));
}

const ElementwiseFunction& ElementwiseFunction::derivative(const std::vector<bool>& wanted, const std::vector<bool>& arrived) const {
  const std::lock_guard lock(mutex_);
  const ElementwiseFunction*& found = derivatives_[{wanted, arrived}];
  if (!found) found = &elementwise_function(expr::derivative(graph_, wanted, arrived));
  return *found;
}

const ElementwiseFunction& elementwise_function(const expr::Graph& traced) {
  struct Entry {
    expr::Graph traced;
    ElementwiseFunction function;
  };
  struct Functions {
    std::shared_mutex mutex;
    std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> by_hash;
  };
  static Functions* const functions = new Functions;  // outlives every static that holds a reference

  const uint64_t hash = traced.hash();
  const auto find = [&]() -> const ElementwiseFunction* {
    const auto [begin, end] = functions->by_hash.equal_range(hash);
    for (auto at = begin; at != end; ++at)
      if (at->second->traced == traced) return &at->second->function;
    return nullptr;
  };
  {
    const std::shared_lock lock(functions->mutex);
    if (const ElementwiseFunction* function = find()) return *function;
  }
  auto entry = std::unique_ptr<Entry>(new Entry{traced, ElementwiseFunction(traced)});
  const std::unique_lock lock(functions->mutex);
  if (const ElementwiseFunction* function = find()) return *function;  // another thread was first
  return functions->by_hash.emplace(hash, std::move(entry))->second->function;
}

}  // namespace weft
