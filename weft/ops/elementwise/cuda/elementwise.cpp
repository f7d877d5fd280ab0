// Equation: the expression's, as emitted by weft/expr/emit.h for its dtypes and the axes that rows are counted over.
// Layout:   each operand has strides over those axes and moves along a row or not (geometry.h).
// Order:    every element on its own; a thread takes a chunk of sixteen bytes' worth, or several.
// Requires: what elementwise() checked; unaligned rows are moved element by element.
// Traffic:  one read of each input, one write of each output.
#include "weft/tile/cuda/modules.h"
#include "weft/expr/emit.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

constexpr double kCaches = 64e6;  // bytes: a launch that moves more leaves nothing of its first half in the 50 MB of L2

expr::Layout layout_of(const ElementwiseArgs& a) {
  const Geometry& g = *a.geometry;
  expr::Layout layout{
      .columns = g.columns, .aligned = true, .past_caches = cost(a).bytes > kCaches, .extent = {g.extent, g.extent + g.axes}, .stride = {}};
  for (size_t i = 0; i < g.operands.size(); ++i) {
    const View& view = i < a.inputs.size() ? a.inputs[i] : a.outputs[i - a.inputs.size()];
    const Geometry::Operand& o = g.operands[i];
    layout.stride.emplace_back(o.stride, o.stride + g.axes);
    if (!view || o.step == 0) continue;
    layout.aligned &= aligned16(data<char>(view));
    for (int axis = 0; axis < g.axes; ++axis) layout.aligned &= o.stride[axis] * size_of(view.dtype) % 16 == 0;
  }
  return layout;
}

}  // namespace

void elementwise(Stream& stream, const ElementwiseArgs& a) {
  if (a.outputs[0].numel() == 0 || of(stream).planned()) return;
  std::vector<int64_t> layout = expr::words(layout_of(a), expr::vector_width(a.compiled->key.signature, Dialect::cuda));
  cudaSetDevice(of(stream).index());
  const cudaKernel_t kernel = modules(stream).kernel(a.compiled->serial, a.compiled->text, "weft_elementwise");

  std::vector<const void*> pointers;
  for (const View& in : a.inputs) pointers.push_back(data<char>(in));
  for (const MutView& out : a.outputs) pointers.push_back(data<char>(out));
  std::vector<void*> arguments;
  for (const void*& pointer : pointers) arguments.push_back(&pointer);
  arguments.push_back(layout.data());
  std::vector<float> parameters(a.parameters.begin(), a.parameters.end());
  if (!parameters.empty()) arguments.push_back(parameters.data());

  const int chunks = expr::chunks_per_thread(a.function->graph(), a.compiled->key.signature, Dialect::cuda),
            threads = chunks > 1 ? 128 : 256;
  const int64_t a_block = int64_t(threads) * chunks;
  const int64_t blocks = (layout[0] + a_block - 1) / a_block;
  check(blocks < (int64_t(1) << 31), a.kOp, "shape ", a.outputs[0].shape, " is more than this device takes in one launch");
  const cudaError_t status = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(unsigned(blocks)), dim3(unsigned(threads)),
                                              arguments.data(), 0, of(stream).handle());
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(ErrorCode::device_fault, a.kOp, "a launch over ", a.outputs[0].shape, " failed: ", cudaGetErrorString(status));
}

}  // namespace weft::cuda
