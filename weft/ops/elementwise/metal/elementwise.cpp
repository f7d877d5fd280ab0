// Equation: the expression's, as emitted by weft/expr/emit.h for its dtypes and the axes that rows are counted over.
// Layout:   each operand has strides over those axes and moves along a row or not (geometry.h).
// Order:    every element on its own; one element a thread, or where there are rows a run of them in one column; threads stride over the
//           elements.
// Requires: what elementwise() checked; 31 buffers in all, which is Metal's limit.
// Traffic:  one read of each input, one write of each output; an input that is repeated along rows once for each run, one value
//           per row, or for all, once for each simdgroup.
#include "weft/expr/emit.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/strided.h"

namespace weft::metal {
namespace {

constexpr size_t kMostBuffers = 31, kMostCopied = 4096;

// The axis along which operands are repeated most, and how many rows of it a thread takes so that repeated reads are 1/48 of the
// traffic. By shape, strides and dtypes alone.
struct Run {
  int axis;
  int64_t length = 1;
};

Run run_of(const Geometry& g, const expr::Signature& signature) {
  Run best{g.axes - 1};
  for (int axis = g.axes - 1; axis >= 0; --axis) {
    int64_t repeated = 0, moved = 0;  // bytes of a column
    for (size_t i = 0; i < g.operands.size(); ++i) {
      if (g.operands[i].step == 0) continue;
      const int64_t bytes =
          size_of(i < signature.inputs.size() ? signature.inputs[i].dtype : signature.outputs[i - signature.inputs.size()]);
      (g.operands[i].stride[axis] == 0 ? repeated : moved) += bytes;
    }
    const int64_t length = std::min(g.extent[axis], (48 * repeated + moved - 1) / moved);
    if (length > best.length) best = {axis, length};
  }
  return best;
}

// The axis of the runs comes last.
expr::Layout layout_of(const Geometry& g, const expr::Signature& signature) {
  expr::Layout layout{.columns = g.columns, .aligned = false, .past_caches = false, .extent = {g.extent, g.extent + g.axes}, .stride = {}};
  for (const Geometry::Operand& o : g.operands) layout.stride.emplace_back(o.stride, o.stride + g.axes);
  if (g.axes == 0) return layout;
  const Run run = run_of(g, signature);
  const auto last = [&](std::vector<int64_t>& axes) { std::rotate(axes.begin() + run.axis, axes.begin() + run.axis + 1, axes.end()); };
  last(layout.extent);
  for (std::vector<int64_t>& strides : layout.stride) last(strides);
  layout.run = run.length;
  return layout;
}

template <class T>
Argument copied(const std::vector<T>& values, const char* what) {
  if (values.size() * sizeof(T) > kMostCopied)
    fail(ErrorCode::unsupported, "elementwise", what, " take more than Metal's ", kMostCopied, " bytes of constants");
  return {nullptr, 0, int64_t(values.size() * sizeof(T)), values.data(), false};
}

}  // namespace

void elementwise(Stream& stream, const ElementwiseArgs& a) {
  if (a.outputs[0].numel() == 0) return;
  const size_t buffers = a.inputs.size() + a.outputs.size() + 1 + !a.parameters.empty();
  if (buffers > kMostBuffers)
    fail(ErrorCode::unsupported, a.kOp, "a Metal kernel has at most ", kMostBuffers, " buffers, ", a.inputs.size(), " inputs and ",
         a.outputs.size(), " outputs need ", buffers);

  const expr::Signature& signature = a.compiled->key.signature;
  const std::vector<int64_t> layout = expr::words(layout_of(*a.geometry, signature), expr::vector_width(signature, Dialect::msl));
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
