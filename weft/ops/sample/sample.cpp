#include "weft/ops/sample/sample.h"

#include "weft/tensor/node.h"

namespace weft {

void sample(Stream& stream, const SampleArgs& args) {
  check_operands(stream, args).require(args.logits.shape[1] > 0, "logits are empty");
  stream.device().kernels().sample(stream, args);
}

Tensor sample(const Tensor& logits) {
  check(logits.defined() && logits.rank() == 2, SampleArgs::kOp, "logits must be [rows, vocabulary], got shape ", logits.shape());
  Tensor ids = Tensor::empty(logits.device(), {logits.shape()[0]}, DType::i32);
  sample(logits.device().stream(), {.logits = logits.view(), .ids = ids.mut_view()});
  record(SampleArgs::kOp, {&logits}, {&ids}, NotDifferentiable{"ids have no gradient"});
  return ids;
}

}  // namespace weft
