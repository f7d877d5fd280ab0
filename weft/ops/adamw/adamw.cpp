#include "weft/ops/adamw/adamw.h"

#include <cmath>

namespace weft {
namespace {

void check_tensor(const Contract& contract, const AdamwTensor& tensor, size_t index) {
  const std::string where = join("tensors[", index, "].");
  const auto operand = [&](const char* member, const View& view, std::initializer_list<DType> dtypes) {
    const std::string name = where + member;
    contract.operand(name.c_str(), view, dtypes).shape(name.c_str(), view, tensor.param.shape);
    contract.require(view.contiguous(), name, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
  };
  operand("param", tensor.param, {DType::f32, DType::bf16});
  operand("grad", tensor.grad, {DType::f32, DType::bf16});
  operand("m", tensor.m, {DType::f32});
  operand("v", tensor.v, {DType::f32});
  if (tensor.param.dtype == DType::bf16)
    operand("master", tensor.master, {DType::f32});
  else
    contract.require(!tensor.master, where, "master goes with a bf16 parameter, but param is ", tensor.param.dtype);
  contract.require(std::isfinite(tensor.weight_decay) && tensor.weight_decay >= 0, where, "weight_decay is ", tensor.weight_decay,
                   ", expected zero or more");
}

}  // namespace

void adamw(Stream& stream, const AdamwArgs& args) {
  const Contract contract(AdamwArgs::kOp, stream);
  contract.scalar("lr", args.lr, DType::f32).scalar("step", args.step, DType::i32);
  if (args.grad_scale) contract.scalar("grad_scale", args.grad_scale, DType::f32);
  contract.require(args.beta1 >= 0 && args.beta1 < 1, "beta1 is ", args.beta1, ", expected zero or more and below 1");
  contract.require(args.beta2 >= 0 && args.beta2 < 1, "beta2 is ", args.beta2, ", expected zero or more and below 1");
  contract.require(std::isfinite(args.eps) && args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  for (size_t i = 0; i < args.tensors.size(); ++i) check_tensor(contract, args.tensors[i], i);
  stream.device().kernels().adamw(stream, args);
}

Cost cost(const AdamwArgs& a) {
  Cost total{bytes_of(a.lr) + bytes_of(a.step) + bytes_of(a.grad_scale), 0};
  for (const AdamwTensor& t : a.tensors) {
    // What is updated is read and written; a bf16 parameter is only written.
    total.bytes += bytes_of(t.grad) + 2 * (bytes_of(t.m) + bytes_of(t.v));
    total.bytes += t.master ? bytes_of(t.param) + 2 * bytes_of(t.master) : 2 * bytes_of(t.param);
    total.flops += 14.0 * double(t.param.numel());
  }
  return total;
}

}  // namespace weft
