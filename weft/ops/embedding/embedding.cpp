#include "weft/ops/embedding/embedding.h"

#include <algorithm>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

void check_ids(const Contract& contract, const View& ids) {
  contract.operand("ids", ids, {DType::i32, DType::u32});
  contract.require(ids.contiguous(), "ids must be contiguous, got strides ", ids.strides, " for shape ", ids.shape);
  contract.require(ids.rank() < kMaxRank, "ids may have at most ", kMaxRank - 1, " axes, got shape ", ids.shape);
}

// The table: w or dw.
void check_table(const Contract& contract, const char* name, const View& table) {
  contract.require(table.rank() == 2, name, " must have rank 2, got shape ", table.shape);
  as_rows(table, contract.op(), name);
}

Shape with_columns(Shape ids, int64_t C) {
  ids.push_back(C);
  return ids;
}

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& args) {
  const Contract contract(EmbeddingArgs::kOp, stream);
  contract.operand("w", args.w, kFloats);
  check_table(contract, "w", args.w);
  check_ids(contract, args.ids);
  contract.operand("y", args.y, kFloats).same_dtype("y", args.y, "w", args.w);
  contract.shape("y", args.y, with_columns(args.ids.shape, args.w.shape[1])).distinct("y", args.y);
  as_rows(args.y, EmbeddingArgs::kOp, "y");
  stream.device().kernels().embedding(stream, args);
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  const Contract contract(EmbeddingBackwardArgs::kOp, stream);
  contract.operand("dw", args.dw, {DType::f32}).distinct("dw", args.dw);
  check_table(contract, "dw", args.dw);
  check_ids(contract, args.ids);
  contract.operand("dy", args.dy, kFloats).shape("dy", args.dy, with_columns(args.ids.shape, args.dw.shape[1]));
  as_rows(args.dy, EmbeddingBackwardArgs::kOp, "dy");
  stream.device().kernels().embedding_backward(stream, args);
}

// A table row that is never asked for is never read: at most one row per position.
Cost cost(const EmbeddingArgs& a) { return {bytes_of(a.ids) + std::min(bytes_of(a.w), bytes_of(a.y)) + bytes_of(a.y), 0}; }

Cost cost(const EmbeddingBackwardArgs& a) {
  return {bytes_of(a.dy) + bytes_of(a.ids) + (a.accumulate ? 2 : 1) * bytes_of(a.dw), double(a.dy.numel())};
}

namespace {

// What a row of dw holds before the sums are added to it.
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
