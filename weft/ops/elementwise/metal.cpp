// Equation: the expression's, as emitted by weft/expr/emit.h for its dtypes and the axes that rows are counted over.
// Layout:   each operand has strides over those axes and moves along a row or not (geometry.h).
// Order:    every element on its own; one element a thread, threads stride over the elements.
// Requires: what elementwise() checked; 31 buffers in all, which is Metal's limit.
// Traffic:  one read of each input, one write of each output.
#include "weft/expr/emit.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/strided.h"

namespace weft::metal {
namespace {

constexpr size_t kMostBuffers = 31, kMostCopied = 4096;

expr::Layout layout_of(const Geometry& g) {
  expr::Layout layout{.columns = g.columns, .aligned = false, .past_caches = false, .extent = {g.extent, g.extent + g.axes}, .stride = {}};
  for (const Geometry::Operand& o : g.operands) layout.stride.emplace_back(o.stride, o.stride + g.axes);
  return layout;
}

template <class T>
Argument copied(const std::vector<T>& values, const char* what) {
  if (values.size() * sizeof(T) > kMostCopied) fail(ErrorCode::unsupported, "elementwise", what, " take more than Metal's ", kMostCopied, " bytes of constants");
  return {nullptr, 0, int64_t(values.size() * sizeof(T)), values.data(), false};
}

}  // namespace

void elementwise(Stream& stream, const ElementwiseArgs& a) {
  if (a.outputs[0].numel() == 0) return;
  const size_t buffers = a.inputs.size() + a.outputs.size() + 1 + !a.parameters.empty();
  if (buffers > kMostBuffers)
    fail(ErrorCode::unsupported, a.kOp, "a Metal kernel has at most ", kMostBuffers, " buffers, ", a.inputs.size(), " inputs and ", a.outputs.size(), " outputs need ", buffers);

  const std::vector<int64_t> layout = expr::words(layout_of(*a.geometry), expr::vector_width(a.compiled->key.signature, Dialect::msl));
  const std::vector<float> parameters(a.parameters.begin(), a.parameters.end());
  std::vector<Argument> arguments;
  for (const View& view : a.inputs) arguments.push_back(in(view));
  for (const MutView& view : a.outputs) arguments.push_back(out(view));
  arguments.push_back(copied(layout, "the strides"));
  if (!parameters.empty()) arguments.push_back(copied(parameters, "the parameters"));

  constexpr int kThreads = 256;
  launch_text(stream, a.kOp, a.compiled->serial, a.compiled->text, "weft_elementwise",
              {.groups = {striding_groups(layout[0], kThreads), 1, 1}, .threads = kThreads}, arguments);
}

}  // namespace weft::metal
