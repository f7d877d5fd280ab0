#include "weft/ops/cross_entropy/cross_entropy.h"

#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {

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
