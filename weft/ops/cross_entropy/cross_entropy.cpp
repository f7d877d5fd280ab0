#include "weft/ops/cross_entropy/cross_entropy.h"

#include <span>

#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// All axes but the last.
Shape leading(const Shape& shape) { return Shape(std::span(shape.begin(), size_t(shape.rank() - 1))); }

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  const Contract contract = check_operands(stream, args);
  if (args.dlogits) {
    const bool shared = args.dlogits.buffer == args.logits.buffer && args.dlogits.offset == args.logits.offset;
    contract.same_rows_if_shared("dlogits", args.dlogits, "logits", args.logits);
    contract.require(!shared || args.dlogits.dtype == args.logits.dtype, "dlogits starts where logits does but is ", args.dlogits.dtype,
                     ", not ", args.logits.dtype);
  }
  stream.device().kernels().cross_entropy(stream, args);
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
                                  .losses = options.losses.mut_view(),
                                  .digests = options.digests.mut_view(),
                                  .count = options.count.view(),
                                  .pad_id = options.pad_id});
  record("cross_entropy", {&logits}, {&loss},
         [dlogits](const Upstream& up) { return std::vector<Tensor>{scale(dlogits, 1.0f, up.grads[0].detach())}; });
  return loss;
}

LogProbabilityTerms log_probability_terms(const Tensor& logits) {
  check(logits.defined() && logits.rank() >= 1, CrossEntropyArgs::kOp, "logits must have rows");
  const NoGrad no_grad;
  Device& device = logits.device();
  const Shape rows = leading(logits.shape());
  const Tensor loss = Tensor::empty(device, {}), targets = zeros(device, rows, DType::i32);  // any target: its loss is not wanted
  LogProbabilityTerms terms{Tensor::empty(device, rows), Tensor::empty(device, rows)};
  cross_entropy(device.stream(), {.logits = logits.view(),
                                  .targets = targets.view(),
                                  .loss = loss.mut_view(),
                                  .maxima = terms.maxima.mut_view(),
                                  .log_sums = terms.log_sums.mut_view()});
  return terms;
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
                                  .losses = options.losses.mut_view(),
                                  .digests = options.digests.mut_view(),
                                  .count = options.count.view(),
                                  .pad_id = options.pad_id});
  return {loss, logits.detach()};
}

}  // namespace weft
