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
  const Contract contract(LionArgs::kOp, stream);
  contract.scalar("lr", args.lr, DType::f32).scalar("grad_scale", args.grad_scale, DType::f32);
  contract.require(args.beta1 >= 0 && args.beta1 < 1, "beta1 is ", args.beta1, ", expected zero or more and below 1");
  contract.require(args.beta2 >= 0 && args.beta2 < 1, "beta2 is ", args.beta2, ", expected zero or more and below 1");
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const LionTensor& t = args.tensors[i];
    OptimizerOperands(contract, i, t.param).gradient(t.grad).state("m", t.m).master(t.master).weight_decay(t.weight_decay);
  }
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
  Cost total{bytes_of(a.lr) + bytes_of(a.grad_scale), 0};
  for (const LionTensor& t : a.tensors) {
    total.bytes += bytes_of(t.grad) + 2 * bytes_of(t.m);
    total.bytes += t.master ? bytes_of(t.param) + 2 * bytes_of(t.master) : 2 * bytes_of(t.param);
    total.flops += 12.0 * double(t.param.numel());
  }
  return total;
}

}  // namespace weft
