// A traced expression as the process caches it: simplified, one for all equal traces (by hash and equality of the graph), with the kernels
// compiled from it and its derivatives. The cache holds kElementwiseFunctions, least recently used dropped first; a shared_ptr to a
// function keeps it and its kernels alive beyond that.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/device/device.h"
#include "weft/expr/emit.h"
#include "weft/expr/graph.h"
#include "weft/expr/program.h"

namespace weft {

// One expression for operands of these types and broadcast pattern, in this dialect: what a backend compiles and runs.
struct ElementwiseKernel {
  Dialect dialect = Dialect::c;
  std::vector<expr::Source> sources = {};  // per input
  std::vector<DType> outputs = {};
  bool stores_last = false;        // some output overwrites an input
  expr::Signature signature = {};  // of the text; dialects other than c

  bool operator==(const ElementwiseKernel& other) const {
    return dialect == other.dialect && stores_last == other.stores_last && sources == other.sources && outputs == other.outputs &&
           signature == other.signature;
  }
};

struct CompiledElementwise {
  ElementwiseKernel key;
  expr::Program program;  // dialect c
  std::string text;       // the others: what their compilers get
  uint64_t serial = 0;    // unique in the process: the key of a device's binary
};

class ElementwiseFunction : public std::enable_shared_from_this<ElementwiseFunction> {
 public:
  explicit ElementwiseFunction(const expr::Graph& traced);

  const expr::Graph& graph() const { return graph_; }  // simplified
  int inputs() const { return graph_.inputs; }
  int outputs() const { return int(graph_.outputs.size()); }
  int parameters() const { return graph_.parameters; }
  bool uses(int input) const { return used_[size_t(input)]; }  // an input that no output needs may be absent

  // The kernel for these operands, compiled the first time.
  const CompiledElementwise& compiled(const ElementwiseKernel& key) const;

  // The vector-Jacobian product as a function of its own. Its inputs are this one's, then the gradients of this one's
  // outputs (those not marked in `arrived` are zero and absent); its outputs the gradients of the inputs in `wanted`.
  std::shared_ptr<const ElementwiseFunction> derivative(const std::vector<bool>& wanted, const std::vector<bool>& arrived) const;

 private:
  const expr::Graph graph_;
  const std::vector<bool> used_;  // per input
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<CompiledElementwise>> kernels_;
  mutable std::map<std::pair<std::vector<bool>, std::vector<bool>>, std::shared_ptr<const ElementwiseFunction>> derivatives_;
};

// Number of functions in the cache. A model has tens; a program that makes functions without end (constants of a
// lambda that change with every step, which should be parameters) stays at some megabytes.
inline constexpr size_t kElementwiseFunctions = 256;

// The function of this traced graph: the cached one, or a new one in place of the least recently used. Thread-safe.
std::shared_ptr<const ElementwiseFunction> elementwise_function(const expr::Graph& traced);

}  // namespace weft
