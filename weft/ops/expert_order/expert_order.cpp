#include "weft/ops/expert_order/expert_order.h"

#include "weft/ops/route/route.h"

namespace weft {

void expert_order(Stream& stream, const ExpertOrderArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t E = args.starts.numel() - 1;
  contract.require(1 <= E && E <= RouteArgs::kMostExperts, "starts has ", E + 1, " elements, expected 2 to ", RouteArgs::kMostExperts + 1,
                   ", one more than there are experts");
  contract.require(args.ids.numel() <= INT32_MAX, args.ids.numel(), " rows are more than 32 bits count");
  stream.device().kernels().expert_order(stream, args);
}

ExpertOrder expert_order(const Tensor& ids, int64_t experts) {
  check(ids.defined(), ExpertOrderArgs::kOp, "ids is missing (an undefined tensor)");
  Device& device = ids.device();
  ExpertOrder order{Tensor::empty(device, {experts + 1}, DType::i32), Tensor::empty(device, {ids.numel()}, DType::i32),
                    Tensor::empty(device, ids.shape(), DType::i32)};
  expert_order(device.stream(), {ids.view(), order.starts.mut_view(), order.rows.mut_view(), order.places.mut_view()});
  return order;
}

}  // namespace weft
