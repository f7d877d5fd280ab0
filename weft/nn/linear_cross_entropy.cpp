#include "weft/nn/linear_cross_entropy.h"

#include <algorithm>

#include "weft/base/parallel.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = "linear_cross_entropy";

void check_operands(const Tensor& x, const Tensor& w, const Tensor& targets) {
  check(x.defined() && w.defined() && targets.defined(), kOp, "x, weight or targets are missing (an undefined tensor)");
  check(x.rank() == 2 && w.rank() == 2 && x.shape()[1] == w.shape()[1], kOp, "x must be [rows, C] and weight [V, C], got shapes ",
        x.shape(), " and ", w.shape());
  check(x.dtype() == w.dtype(), kOp, "x is ", x.dtype(), " but weight is ", w.dtype());
  check(targets.shape() == Shape{x.shape()[0]} && is_id(targets.dtype()), kOp, "targets must be ", x.shape()[0], " ids, got shape ",
        targets.shape(), " of ", targets.dtype());
}

template <class Id>
int64_t others(const Tensor& targets, int64_t pad_id) {
  const std::vector<Id> ids = targets.to_host<Id>();
  return std::count_if(ids.begin(), ids.end(), [&](Id id) { return int64_t(id) != pad_id; });
}

// What the sum over all rows is divided by; at least 1, so that no rows give the loss 0.
Tensor divisor(const Tensor& targets, const CrossEntropyOptions& options) {
  if (options.count) return options.count.detach();
  int64_t count = targets.numel();
  if (options.pad_id != -1)
    count = targets.dtype() == DType::i32 ? others<int32_t>(targets, options.pad_id) : others<uint32_t>(targets, options.pad_id);
  return full(targets.device(), {}, double(std::max<int64_t>(1, count)));
}

struct Gradients {
  Tensor dx, dw;  // of x's dtype, and f32; undefined: not wanted
};

// The matrix units of a GPU are several times slower where the extents of a product are no multiples of a few elements: 50257
// words are taken for 50304.
int64_t padded(const Device& device, int64_t V) { return device.dialect() == Dialect::cuda ? ceil_div(V, 64) * 64 : V; }

// w with rows of zeros below.
Tensor with_rows(const Tensor& w, int64_t rows) {
  if (rows == w.shape()[0]) return w;
  const Tensor all = Tensor::empty(w.device(), {rows, w.shape()[1]}, w.dtype());
  copy(w, all.part(0, 0, w.shape()[0]));
  zero(all.part(0, w.shape()[0], rows));
  return all;
}

// In bf16, zeros beyond the words.
Tensor empty_gradient(const Tensor& logits, int64_t words) {
  const Tensor made = Tensor::empty(logits.device(), logits.shape(), DType::bf16);
  if (words < logits.shape()[1]) zero(made.part(1, words, logits.shape()[1]));
  return made;
}

// One chunk of rows: its part of the loss, and of the gradients. w may have more rows than there are words: zeros, whose logits
// are no part of the loss and whose gradients are zeros.
void add_chunk(const Tensor& x, const Tensor& w, int64_t words, const CrossEntropyArgs& rest, const Gradients& grads, bool first) {
  const Tensor logits = matmul(x, w, {.transpose_b = true, .out_dtype = DType::f32});
  const Tensor of_words = logits.part(1, 0, words);
  CrossEntropyArgs args = rest;
  args.logits = of_words.view();
  const Tensor dlogits = !grads.dx && !grads.dw ? Tensor() : x.dtype() == DType::f32 ? logits : empty_gradient(logits, words);
  if (dlogits) args.dlogits = dlogits.part(1, 0, words).mut_view();
  args.accumulate = !first;
  Stream& stream = x.device().stream();
  cross_entropy(stream, args);
  if (grads.dx) matmul(stream, {.a = dlogits.view(), .b = w.view(), .c = grads.dx.mut_view(), .bias = {}, .pre = {}});
  if (grads.dw)
    matmul(stream, {.a = dlogits.view(),
                    .b = x.view(),
                    .c = grads.dw.mut_view(),
                    .bias = {},
                    .pre = {},
                    .transpose_a = true,
                    .beta = first ? 0.0f : 1.0f});
}

// The rule: what was computed, times the gradient of the loss.
std::vector<Tensor> scaled(const Gradients& grads, DType dw_dtype, const Upstream& up) {
  static const auto times = fuse([](Expr g, Expr s) { return g * s; });
  static const auto plus_times = fuse([](Expr sum, Expr g, Expr s) { return fma(g, s, sum); });
  const Tensor dloss = up.grads[0].detach().reshape({});
  std::vector<Tensor> results(2);
  if (up.wanted[0]) times.into(results[0] = grads.dx, grads.dx, dloss);
  if (!up.wanted[1]) return results;
  if (const Tensor sum = up.sum(1); sum && sum.dtype() == DType::f32) {
    plus_times.into(results[1] = sum, sum, grads.dw, dloss);
    return results;
  }
  times.into(grads.dw, grads.dw, dloss);
  results[1] = cast(grads.dw, dw_dtype);
  return results;
}

}  // namespace

int64_t linear_cross_entropy_chunk(const Device& device, int64_t rows, int64_t V) {
  const int64_t most_logits = int64_t(device.dialect() == Dialect::cuda ? 128 : 16) << 20;
  const int64_t most = std::max<int64_t>(1, most_logits / std::max<int64_t>(1, V));
  return std::max<int64_t>(1, ceil_div(rows, std::max<int64_t>(1, ceil_div(rows, most))));
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, const CrossEntropyOptions& options) {
  check_operands(x, weight, targets);
  Device& device = x.device();
  const int64_t rows = x.shape()[0], words = weight.shape()[0], width = padded(device, words);
  const int64_t chunk = linear_cross_entropy_chunk(device, rows, width);
  Gradients grads;
  if (should_record({&x})) grads.dx = Tensor::empty(device, x.shape(), x.dtype());
  if (should_record({&weight})) grads.dw = Tensor::empty(device, {width, weight.shape()[1]});
  Tensor loss = zeros(device, {});
  const Tensor count = divisor(targets, options);
  const Tensor from = x.detach(), w = with_rows(weight.detach(), width), to = contiguous(targets.detach());
  for (int64_t row = 0; row < rows; row += chunk) {
    const int64_t end = std::min(rows, row + chunk);
    const Tensor labels = to.part(0, row, end);
    CrossEntropyArgs args;
    args.targets = labels.view();
    args.loss = loss.mut_view();
    args.count = count.view();
    args.pad_id = options.pad_id;
    add_chunk(from.part(0, row, end), w, words, args, {grads.dx ? grads.dx.part(0, row, end) : Tensor(), grads.dw}, row == 0);
  }
  if (rows == 0 && grads.dw) zero(grads.dw);
  if (grads.dw) grads.dw = grads.dw.part(0, 0, words);
  const DType dw_dtype = weight.node() && weight.node()->leaf() ? DType::f32 : weight.dtype();
  record(kOp, {&x, &weight}, {&loss}, [grads, dw_dtype](const Upstream& up) { return scaled(grads, dw_dtype, up); });
  return loss;
}

}  // namespace weft
