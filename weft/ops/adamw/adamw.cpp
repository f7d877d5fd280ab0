#include "weft/ops/adamw/adamw.h"

#include <cmath>

#include "weft/ops/optimizer_contract.h"

namespace weft {

void adamw(Stream& stream, const AdamwArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.beta1 >= 0 && args.beta1 < 1, "beta1 is ", args.beta1, ", expected zero or more and below 1");
  contract.require(args.beta2 >= 0 && args.beta2 < 1, "beta2 is ", args.beta2, ", expected zero or more and below 1");
  contract.require(std::isfinite(args.eps) && args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  check_tensors(contract, args);
  stream.device().kernels().adamw(stream, args);
}

Cost cost(const AdamwArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const AdamwTensor& t : a.tensors) {
    total.bytes += tensor_bytes(t);
    total.flops += 14.0 * double(t.param.numel());
  }
  return total;
}

}  // namespace weft
