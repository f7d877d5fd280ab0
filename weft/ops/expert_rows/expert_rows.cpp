#include "weft/ops/expert_rows/expert_rows.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/expert_order/expert_order.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// k, the number of rows per token.
int64_t rows_of_token(const Contract& contract, int64_t P, int64_t T) {
  contract.require(T == 0 ? P == 0 : P % T == 0, P, " rows are no multiple of ", T, " tokens");
  contract.require(P <= INT32_MAX, P, " rows are more than 32 bits count");
  return T == 0 ? 0 : P / T;
}

template <class Args>
void check_places(const Contract& contract, const Args& args) {
  const int64_t P = args.x.shape[0], T = args.places.shape[0], k = args.places.shape[1];
  rows_of_token(contract, P, T);
  contract.require(T * k == P, "places has shape ", args.places.shape, " for ", P, " rows");
}

}  // namespace

void expert_rows(Stream& stream, const ExpertRowsArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t P = args.rows.numel(), T = args.x.shape[0], k = rows_of_token(contract, P, T);
  contract.require(!args.weights || args.weights.shape[1] == k || T == 0, "weights has shape ", args.weights.shape, " for ", P, " rows");
  stream.device().kernels().expert_rows(stream, args);
}

void expert_sum(Stream& stream, const ExpertSumArgs& args) {
  check_places(check_operands(stream, args), args);
  stream.device().kernels().expert_sum(stream, args);
}

void expert_dots(Stream& stream, const ExpertDotsArgs& args) {
  check_places(check_operands(stream, args), args);
  stream.device().kernels().expert_dots(stream, args);
}

Tensor expert_rows(const Tensor& x, const ExpertOrder& order) {
  check(x.defined() && x.rank() == 2, ExpertRowsArgs::kOp, "x must be [tokens, columns], got shape ", x.shape());
  Device& device = x.device();
  Tensor y = Tensor::empty(device, {order.rows.numel(), x.shape()[1]}, x.dtype());
  expert_rows(device.stream(), {x.view(), order.rows.view(), {}, y.mut_view()});
  record("expert_rows", {&x}, {&y}, [shape = x.shape(), places = Kept(order.places)](const Upstream& up) {
    const Tensor dy = contiguous(up.grads[0].detach());
    const Tensor dx = Tensor::empty(dy.device(), shape, dy.dtype());
    expert_sum(dy.device().stream(), {dy.view(), places.view(), {}, dx.mut_view()});
    return std::vector<Tensor>{dx};
  });
  return y;
}

Tensor expert_sum(const Tensor& x, const ExpertOrder& order, const Tensor& weights) {
  check(x.defined() && x.rank() == 2, ExpertSumArgs::kOp, "x must be [rows, columns], got shape ", x.shape());
  check(order.places.defined() && order.places.rank() == 2, ExpertSumArgs::kOp, "places must be [tokens, k], got shape ",
        order.places.shape());
  Device& device = x.device();
  Tensor y = Tensor::empty(device, {order.places.shape()[0], x.shape()[1]}, x.dtype());
  expert_sum(device.stream(), {x.view(), order.places.view(), weights.view(), y.mut_view()});
  record("expert_sum", {&x, &weights}, {&y},
         [x = Kept(x), rows = Kept(order.rows), places = Kept(order.places), weights = Kept(weights)](const Upstream& up) {
           const Tensor dy = contiguous(up.grads[0].detach());
           Stream& stream = dy.device().stream();
           std::vector<Tensor> grads(2);
           if (up.wanted[0]) {
             grads[0] = Tensor::empty(dy.device(), x.shape(), x.dtype());
             expert_rows(stream, {dy.view(), rows.view(), weights.view(), grads[0].mut_view()});
           }
           if (up.wanted[1]) {
             grads[1] = Tensor::empty(dy.device(), weights.shape());
             expert_dots(stream, {dy.view(), x.view(), places.view(), grads[1].mut_view()});
           }
           return grads;
         });
  return y;
}

}  // namespace weft
