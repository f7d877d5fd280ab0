#include "weft/ops/linear_cross_entropy/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "weft/base/parallel.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = LinearCrossEntropyArgs::kOp;
constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

void check_operands(const Stream& stream, const LinearCrossEntropyArgs& a) {
  const Contract contract(kOp, stream);
  contract.operand("x", a.x, kFloats).operand("weight", a.weight, {DType::f32, DType::bf16, DType::u8});
  contract.require(!a.scales || (!a.dx && !a.dweight), "an int8 weight has no gradients");
  if (!a.scales) contract.same_dtype("weight", a.weight, "x", a.x);
  contract.require(a.x.rank() == 2 && a.weight.rank() == 2 && a.x.shape[1] == a.weight.shape[1],
                   "x must be [rows, C] and weight [V, C], got shapes ", a.x.shape, " and ", a.weight.shape);
  contract.operand("targets", a.targets, {DType::i32, DType::u32}).shape("targets", a.targets, Shape{a.x.shape[0]});
  contract.require(a.targets.contiguous(), "targets must be contiguous, got strides ", a.targets.strides);
  contract.scalar("count", a.count, DType::f32).scalar("loss", a.loss, DType::f32);
  contract.optional("losses", a.losses, {DType::f32}).shape("losses", a.losses, Shape{a.x.shape[0]}).distinct("losses", a.losses);
  contract.optional("digests", a.digests, {DType::u32}).shape("digests", a.digests, Shape{a.x.shape[0]}).distinct("digests", a.digests);
  contract.optional("dx", a.dx, kFloats).shape("dx", a.dx, a.x.shape).same_dtype("dx", a.dx, "x", a.x).distinct("dx", a.dx);
  contract.optional("dweight", a.dweight, {DType::f32}).distinct("dweight", a.dweight);
  contract.require(
      !a.dweight || (a.dweight.rank() == 2 && a.dweight.shape[0] >= a.weight.shape[0] && a.dweight.shape[1] == a.weight.shape[1]),
      "dweight has shape ", a.dweight.shape, ", expected that of weight, ", a.weight.shape, ", or more rows");
  contract.require(std::isfinite(a.soft_cap) && a.soft_cap >= 0, "soft_cap is ", a.soft_cap, ", expected a positive number, or 0 for none");
  contract.require(a.chunk_rows >= 0, "chunk_rows is ", a.chunk_rows, ", expected 0 (the device's preference) or more");
}

// V rounded up to what the device's matmul prefers.
int64_t padded(const Device& device, int64_t V) {
  const int64_t multiple = device.traits().matmul_multiple;
  return ceil_div(V, multiple) * multiple;
}

void zero_rows(Stream& stream, const MutView& view, int64_t first) {
  if (first < view.shape[0]) fill(stream, {.out = part(view, 0, first, view.shape[0]), .value = 0});
}

// The weight with rows of zeros below: their logits are no part of the loss, and their gradients are zeros.
Tensor with_rows(Stream& stream, const View& weight, int64_t rows) {
  const Tensor all = Tensor::empty(stream.device(), {rows, weight.shape[1]}, weight.dtype);
  const MutView to = all.mut_view();
  copy(stream, {.from = weight, .to = part(to, 0, 0, weight.shape[0])});
  zero_rows(stream, to, weight.shape[0]);
  return all;
}

// Separate memory for dlogits, with zeros beyond the vocabulary.
Tensor empty_gradient(const Tensor& logits, int64_t V, DType dtype) {
  const Tensor made = Tensor::empty(logits.device(), logits.shape(), dtype);
  if (V < logits.shape()[1]) zero(made.part(1, V, logits.shape()[1]));
  return made;
}

// Rows [row, end): their share of the loss and of the gradients. `weight` may have more rows than the vocabulary has words.
void add_chunk(Stream& stream, const LinearCrossEntropyArgs& a, const View& weight, int64_t row, int64_t end) {
  const int64_t V = a.weight.shape[0];
  const View x = part(a.x, 0, row, end);
  const Tensor logits = Tensor::empty(stream.device(), {end - row, weight.shape[0]});
  matmul(stream, {.a = x, .b = weight, .c = logits.mut_view(), .bias = {}, .pre = {}, .transpose_b = true, .scales = a.scales});
  if (a.soft_cap > 0) soft_cap_in_place(logits, a.soft_cap);
  // dlogits overwrites the logits unless its dtype differs or the soft cap's derivative needs them.
  const bool wanted = a.dx || a.dweight, in_place = a.x.dtype == DType::f32 && a.soft_cap == 0;
  const Tensor dlogits = !wanted ? Tensor() : in_place ? logits : empty_gradient(logits, V, a.x.dtype);
  const bool first = row == 0;
  cross_entropy(stream, {.logits = part(logits.view(), 1, 0, V),
                         .targets = part(a.targets, 0, row, end),
                         .dlogits = wanted ? part(dlogits.mut_view(), 1, 0, V) : MutView{},
                         .loss = a.loss,
                         .losses = a.losses ? part(a.losses, 0, row, end) : MutView{},
                         .digests = a.digests ? part(a.digests, 0, row, end) : MutView{},
                         .count = a.count,
                         .pad_id = a.pad_id,
                         .accumulate = !first});
  if (wanted && a.soft_cap > 0) soft_cap_backward_in_place(logits, dlogits, a.soft_cap);
  if (a.dx) matmul(stream, {.a = dlogits.view(), .b = weight, .c = part(a.dx, 0, row, end), .bias = {}, .pre = {}, .any_order = true});
  if (!a.dweight) return;
  const int64_t rows = std::min(a.dweight.shape[0], weight.shape[0]);  // at least V
  matmul(stream, {.a = part(dlogits.view(), 1, 0, rows),
                  .b = x,
                  .c = part(a.dweight, 0, 0, rows),
                  .bias = {},
                  .pre = {},
                  .transpose_a = true,
                  .beta = first ? 0.0f : 1.0f,
                  .any_order = true});
}

template <class Id>
int64_t others(const Tensor& targets, int64_t pad_id) {
  const std::vector<Id> ids = targets.to_host<Id>();
  return std::count_if(ids.begin(), ids.end(), [&](Id id) { return int64_t(id) != pad_id; });
}

// The number of targets that count, at least 1, so that no rows give the loss 0.
Tensor count_of(const Tensor& targets, const CrossEntropyOptions& options) {
  if (options.count) return options.count.detach();
  int64_t count = targets.numel();
  if (options.pad_id != -1)
    count = targets.dtype() == DType::i32 ? others<int32_t>(targets, options.pad_id) : others<uint32_t>(targets, options.pad_id);
  return full(targets.device(), {}, double(std::max<int64_t>(1, count)));
}

// The rule: the gradients that were computed on the way, times the gradient of the loss. dweight is f32.
std::vector<Tensor> scaled(const Tensor& dx, const Tensor& dweight, DType dweight_dtype, const Upstream& up) {
  static const auto times = fuse([](Expr g, Expr s) { return g * s; });
  static const auto plus_times = fuse([](Expr sum, Expr g, Expr s) { return fma(g, s, sum); });
  const Tensor dloss = up.grads[0].detach().reshape({});
  std::vector<Tensor> results(2);
  if (up.wanted[0]) times.into(results[0] = dx, dx, dloss);
  if (!up.wanted[1]) return results;
  if (const Tensor sum = up.sum(1); sum && sum.dtype() == DType::f32) {
    plus_times.into(results[1] = sum, sum, dweight, dloss);
    return results;
  }
  times.into(dweight, dweight, dloss);
  results[1] = cast(dweight, dweight_dtype);
  return results;
}

}  // namespace

int64_t linear_cross_entropy_chunk(const Device& device, int64_t rows, int64_t V) {
  const DeviceTraits traits = device.traits();
  const int64_t most = std::max<int64_t>(1, traits.temporary_elements / std::max<int64_t>(1, V));
  const int64_t equal = std::max<int64_t>(1, ceil_div(rows, std::max<int64_t>(1, ceil_div(rows, most))));
  // Rows of a chunk are M of one matmul and K of another: whole tiles where the matmul has a preference.
  const int64_t tile = traits.matmul_multiple > 1 ? 4 * traits.matmul_multiple : 1;
  return equal < tile ? equal : ceil_div(equal, tile) * tile;
}

void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args) {
  check_operands(stream, args);
  const Device& device = stream.device();
  const int64_t rows = args.x.shape[0], V = args.weight.shape[0], width = args.scales ? V : padded(device, V);
  if (rows == 0) fill(stream, {.out = args.loss, .value = 0});
  if (args.dweight) zero_rows(stream, args.dweight, rows == 0 ? 0 : std::min(width, args.dweight.shape[0]));
  if (rows == 0) return;
  const int64_t chunk = args.chunk_rows ? args.chunk_rows : linear_cross_entropy_chunk(device, rows, width);
  const Tensor wider = width > V ? with_rows(stream, args.weight, width) : Tensor();
  for (int64_t row = 0; row < rows; row += chunk)
    add_chunk(stream, args, wider ? wider.view() : args.weight, row, std::min(rows, row + chunk));
}

// One matmul for the logits and one for each gradient; cross_entropy's operations.
Cost cost(const LinearCrossEntropyArgs& a) {
  const double logits = double(a.x.shape[0]) * double(a.weight.shape[0]), matmuls = 1.0 + bool(a.dx) + bool(a.dweight);
  return {bytes_of(a.x) + bytes_of(a.weight) + bytes_of(a.targets) + bytes_of(a.count) + bytes_of(a.loss) + bytes_of(a.losses) +
              bytes_of(a.digests) + bytes_of(a.dx) + bytes_of(a.dweight),
          logits * (2.0 * double(a.x.shape[1]) * matmuls + (a.dx || a.dweight ? 7 : 4))};
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, const CrossEntropyOptions& options,
                            float soft_cap, const Tensor& scales) {
  check(x.defined() && weight.defined() && targets.defined(), kOp, "x, weight or targets are missing (an undefined tensor)");
  check(weight.rank() == 2 && is_id(targets.dtype()), kOp, "weight must be [V, C] and targets ids, got shape ", weight.shape(), " and ",
        targets.dtype());
  Device& device = x.device();
  const int64_t V = weight.shape()[0];
  const Tensor dx = should_record({&x}) ? Tensor::empty(device, x.shape(), x.dtype()) : Tensor();
  const Tensor dweight = should_record({&weight}) ? Tensor::empty(device, {padded(device, V), weight.shape()[1]}) : Tensor();
  Tensor loss = Tensor::empty(device, {});
  const Tensor to = contiguous(targets.detach()), count = count_of(to, options);
  linear_cross_entropy(device.stream(), {.x = x.view(),
                                         .weight = weight.view(),
                                         .targets = to.view(),
                                         .count = count.view(),
                                         .loss = loss.mut_view(),
                                         .losses = options.losses.mut_view(),
                                         .digests = options.digests.mut_view(),
                                         .dx = dx.mut_view(),
                                         .dweight = dweight.mut_view(),
                                         .pad_id = options.pad_id,
                                         .soft_cap = soft_cap,
                                         .scales = scales.view()});
  const DType dweight_dtype = weight.node() && weight.node()->leaf() ? DType::f32 : weight.dtype();
  record(kOp, {&x, &weight}, {&loss}, [dx, dw = dweight ? dweight.part(0, 0, V) : Tensor(), dweight_dtype](const Upstream& up) {
    return scaled(dx, dw, dweight_dtype, up);
  });
  return loss;
}

}  // namespace weft
