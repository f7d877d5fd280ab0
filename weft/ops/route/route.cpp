#include "weft/ops/route/route.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

void check_counts(const Contract& contract, const View& logits, const View& ids) {
  const int64_t E = logits.shape.back(), k = ids.shape.back();
  contract.require(1 <= E && E <= RouteArgs::kMostExperts, "there are ", E, " experts, expected 1 to ", RouteArgs::kMostExperts);
  contract.require(1 <= k && k <= E, k, " experts are chosen of ", E, ", expected 1 to ", E);
}

}  // namespace

void route(Stream& stream, const RouteArgs& args) {
  check_counts(check_operands(stream, args), args.logits, args.ids);
  stream.device().kernels().route(stream, args);
}

void route_backward(Stream& stream, const RouteBackwardArgs& args) {
  check_counts(check_operands(stream, args), args.logits, args.ids);
  stream.device().kernels().route_backward(stream, args);
}

Routed route(const Tensor& logits, int64_t chosen, bool of_chosen) {
  check(logits.defined() && logits.rank() >= 1, RouteArgs::kOp, "logits must be [..., experts], got shape ", logits.shape());
  Device& device = logits.device();
  Shape shape = logits.shape();
  shape[shape.rank() - 1] = chosen;
  Routed routed{Tensor::empty(device, shape, DType::i32), Tensor::empty(device, shape)};
  route(device.stream(), {logits.view(), routed.ids.mut_view(), routed.weights.mut_view(), of_chosen});
  record("route", {&logits}, {&routed.weights}, [logits = Kept(logits), ids = Kept(routed.ids), of_chosen](const Upstream& up) {
    const Tensor dweights = contiguous(up.grads[0].detach());
    const Tensor dlogits = Tensor::empty(dweights.device(), logits.shape(), logits.dtype());
    route_backward(dweights.device().stream(), {logits.view(), ids.view(), dweights.view(), dlogits.mut_view(), of_chosen});
    return std::vector<Tensor>{dlogits};
  });
  return routed;
}

}  // namespace weft
