#include "weft/ops/cross_entropy/cross_entropy.h"

#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

void check_gradient(const Contract& contract, const View& dlogits, const View& logits) {
  contract.operand("dlogits", dlogits, kFloats).shape("dlogits", dlogits, logits.shape).distinct("dlogits", dlogits);
  contract.require(dlogits.dtype == logits.dtype || dlogits.dtype == DType::bf16, "dlogits is ", dlogits.dtype,
                   ", expected bf16 or logits' ", logits.dtype);
  const Rows to = as_rows(dlogits, contract.op(), "dlogits"), from = as_rows(logits, contract.op(), "logits");
  const bool shared = dlogits.buffer == logits.buffer && dlogits.offset == logits.offset;
  contract.require(!shared || to.rows <= 1 || to.stride == from.stride, "dlogits starts where logits does but has row stride ", to.stride,
                   ", not ", from.stride);
  contract.require(!shared || dlogits.dtype == logits.dtype, "dlogits starts where logits does but is ", dlogits.dtype, ", not ",
                   logits.dtype);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  const Contract contract(CrossEntropyArgs::kOp, stream);
  contract.operand("logits", args.logits, kFloats).require(args.logits.rank() >= 1, "logits must have at least one axis");
  as_rows(args.logits, CrossEntropyArgs::kOp, "logits");
  Shape leading;
  for (int axis = 0; axis + 1 < args.logits.rank(); ++axis) leading.push_back(args.logits.shape[axis]);
  contract.operand("targets", args.targets, {DType::i32, DType::u32}).shape("targets", args.targets, leading);
  contract.require(args.targets.contiguous(), "targets must be contiguous, got strides ", args.targets.strides, " for shape ",
                   args.targets.shape);
  if (args.dlogits) check_gradient(contract, args.dlogits, args.logits);
  contract.scalar("loss", args.loss, DType::f32);
  if (args.count) contract.scalar("count", args.count, DType::f32);
  stream.device().kernels().cross_entropy(stream, args);
}

// Maximum, difference, exponential and sum; with a gradient an exponential and a product more.
Cost cost(const CrossEntropyArgs& a) {
  return {bytes_of(a.logits) + bytes_of(a.targets) + bytes_of(a.dlogits) + bytes_of(a.loss) + bytes_of(a.count),
          (a.dlogits ? 7.0 : 4.0) * double(a.logits.numel())};
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  check(logits.defined(), CrossEntropyArgs::kOp, "logits is missing (an undefined tensor)");
  Device& device = logits.device();
  Tensor loss = Tensor::empty(device, {});
  const Tensor dlogits = should_record({&logits}) ? Tensor::empty(device, logits.shape(), logits.dtype()) : Tensor();
  cross_entropy(device.stream(), {.logits = logits.view(),
                                  .targets = targets.view(),
                                  .dlogits = dlogits.mut_view(),
                                  .loss = loss.mut_view(),
                                  .count = options.count.view(),
                                  .pad_id = options.pad_id});
  record("cross_entropy", {&logits}, {&loss},
         [dlogits](const Upstream& up) { return std::vector<Tensor>{scale(dlogits, 1.0f, up.grads[0].detach())}; });
  return loss;
}

CrossEntropyGradient cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  check(logits.defined(), CrossEntropyArgs::kOp, "logits is missing (an undefined tensor)");
  Device& device = logits.device();
  Tensor loss = Tensor::empty(device, {});
  record("cross_entropy_in_place", {&logits}, {&loss}, NotDifferentiable{"it overwrites the logits"});
  cross_entropy(device.stream(), {.logits = logits.view(),
                                  .targets = targets.view(),
                                  .dlogits = logits.mut_view(),
                                  .loss = loss.mut_view(),
                                  .count = options.count.view(),
                                  .pad_id = options.pad_id});
  return {loss, logits.detach()};
}

}  // namespace weft
