#include "weft/ops/dropout/dropout.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"

namespace weft {

void dropout(Stream& stream, const DropoutArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.p >= 0 && args.p < 1, "p is ", args.p, ", expected zero or more and below 1");
  contract.require(args.x.numel() <= kMostRandomWords, "at most ", kMostRandomWords, " elements in one call, got shape ", args.x.shape);
  if (args.x.numel() == 0) return;
  stream.device().kernels().dropout(stream, args);
}

Tensor dropout(const Tensor& x, float p, const Tensor& state, uint32_t site) {
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  dropout(device.stream(), {.x = x.view(), .state = state.view(), .site = site, .p = p, .y = y.mut_view()});
  record("dropout", {&x}, {&y}, [p, state = Kept(state), site](const Upstream& up) {
    return std::vector<Tensor>{dropout(contiguous(up.grads[0].detach()), p, state, site)};
  });
  return y;
}

}  // namespace weft
