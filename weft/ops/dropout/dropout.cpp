#include "weft/ops/dropout/dropout.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"

namespace weft {

void dropout(Stream& stream, const DropoutArgs& args) {
  const Contract contract(DropoutArgs::kOp, stream);
  contract.operand("x", args.x, {DType::f32, DType::bf16}).operand("y", args.y, {DType::f32, DType::bf16});
  contract.same_dtype("y", args.y, "x", args.x).shape("y", args.y, args.x.shape);
  for (auto [name, view] : {std::pair<const char*, const View&>{"x", args.x}, {"y", args.y}})
    contract.require(view.contiguous(), name, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
  check_random_state(contract, args.state);
  contract.require(args.p >= 0 && args.p < 1, "p is ", args.p, ", expected zero or more and below 1");
  contract.require(args.x.numel() <= kMostRandomWords, "at most ", kMostRandomWords, " elements in one call, got shape ", args.x.shape);
  if (args.x.numel() == 0) return;
  stream.device().kernels().dropout(stream, args);
}

Cost cost(const DropoutArgs& a) { return {bytes_of(a.x) + bytes_of(a.state) + bytes_of(a.y), double(a.x.numel())}; }

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
