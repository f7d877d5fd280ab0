#include "weft/ops/lion/lion.h"

#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/optimizer_contract.h"

namespace weft {
namespace {

Expr sign(Expr c) { return select(0.0f < c, 1.0f, select(c < 0.0f, -1.0f, c)); }  // a NaN and a zero stay

// Outputs are p, m, and the rounded copy of p where p is a master. rest = 1 - beta, rounded from double.
template <bool kMaster>
const ElementwiseFunction& update() {
  static const auto f =
      fuse([](Expr p, Expr grad, Expr lr, Expr scale, Expr m, Param wd, Param beta1, Param rest1, Param beta2, Param rest2) {
        const Expr g = grad * scale, c = fma(rest1, g, beta1 * m);
        const Expr after = p - lr * fma(wd, p, sign(c)), next = fma(rest2, g, beta2 * m);
        if constexpr (kMaster)
          return std::tuple(after, next, after);
        else
          return std::tuple(after, next);
      });
  return f.function();
}

}  // namespace

void lion(Stream& stream, const LionArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.beta1 >= 0 && args.beta1 < 1, "beta1 is ", args.beta1, ", expected zero or more and below 1");
  contract.require(args.beta2 >= 0 && args.beta2 < 1, "beta2 is ", args.beta2, ", expected zero or more and below 1");
  check_tensors(contract, args);
  for (const LionTensor& t : args.tensors) {
    const MutView& p = t.master ? t.master : t.param;
    const std::vector<View> inputs = {p, t.grad, args.lr, args.grad_scale, t.m};
    std::vector<MutView> outputs = {p, t.m};
    if (t.master) outputs.push_back(t.param);
    const float parameters[] = {t.weight_decay, float(args.beta1), float(1 - args.beta1), float(args.beta2), float(1 - args.beta2)};
    const ElementwiseFunction& function = t.master ? update<true>() : update<false>();
    elementwise(stream, {.function = &function, .inputs = inputs, .outputs = outputs, .parameters = parameters});
  }
}

Cost cost(const LionArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const LionTensor& t : a.tensors) {
    total.bytes += tensor_bytes(t);
    total.flops += 12.0 * double(t.param.numel());
  }
  return total;
}

}  // namespace weft
