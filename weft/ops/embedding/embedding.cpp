#include "weft/ops/embedding/embedding.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

Shape with_columns(Shape ids, int64_t C) {
  ids.push_back(C);
  return ids;
}

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& args) {
  check_operands(stream, args);
  stream.device().kernels().embedding(stream, args);
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  check_operands(stream, args);
  stream.device().kernels().embedding_backward(stream, args);
}

namespace {

// A copy of a row of dw, before the sums are added to it.
Tensor row_before(const Tensor& dw, int64_t row, bool accumulate) {
  const Shape shape{1, dw.shape()[1]};
  if (!accumulate) return zeros(dw.device(), shape);
  const Tensor own = Tensor::empty(dw.device(), shape);
  copy(dw.part(0, row, row + 1), own);
  return own;
}

}  // namespace

Tensor embedding(const Tensor& w, const Tensor& ids, std::optional<int64_t> padding) {
  Device& device = w.device();
  check(w.rank() == 2, EmbeddingArgs::kOp, "w must have rank 2, got shape ", w.shape());
  check(ids.rank() < kMaxRank, EmbeddingArgs::kOp, "ids may have at most ", kMaxRank - 1, " axes, got shape ", ids.shape());
  Tensor y = Tensor::empty(device, with_columns(ids.shape(), w.shape()[1]), w.dtype());
  embedding(device.stream(), {.w = w.view(), .ids = ids.view(), .y = y.mut_view()});
  if (padding && (*padding < 0 || *padding >= w.shape()[0])) padding.reset();
  record("embedding", {&w}, {&y}, [shape = w.shape(), ids = Kept(ids), padding](const Upstream& up) {
    const Tensor dy = contiguous(up.grads[0].detach());
    const Tensor sum = up.sum(0);
    const bool accumulate = sum && sum.dtype() == DType::f32;
    const Tensor dw = accumulate ? sum : Tensor::empty(dy.device(), shape);
    const Tensor before = padding ? row_before(dw, *padding, accumulate) : Tensor();
    embedding_backward(dy.device().stream(), {.dy = dy.view(), .ids = ids.view(), .dw = dw.mut_view(), .accumulate = accumulate});
    if (padding) copy(before, dw.part(0, *padding, *padding + 1));
    return std::vector<Tensor>{dw};
  });
  return y;
}

}  // namespace weft
