#include "weft/ops/sgd/sgd.h"

#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/optimizer_contract.h"

namespace weft {
namespace {

// The update as an expression; outputs are p, m where there is one, and the rounded copy of p where p is a master.
template <bool kMomentum, bool kNesterov, bool kMaster>
const ElementwiseFunction& update() {
  if constexpr (kMomentum) {
    static const auto f = fuse([](Expr p, Expr g, Expr lr, Expr scale, Expr m, Param wd, Param mu) {
      const Expr d = fma(wd, p, g * scale), next = fma(mu, m, d);
      const Expr after = p - lr * (kNesterov ? fma(mu, next, d) : next);
      if constexpr (kMaster)
        return std::tuple(after, next, after);
      else
        return std::tuple(after, next);
    });
    return f.function();
  } else {
    static const auto f = fuse([](Expr p, Expr g, Expr lr, Expr scale, Param wd) {
      const Expr after = p - lr * fma(wd, p, g * scale);
      if constexpr (kMaster)
        return std::tuple(after, after);
      else
        return std::tuple(after);
    });
    return f.function();
  }
}

template <bool kMaster>
const ElementwiseFunction& update_for(const SgdArgs& a) {
  if (a.momentum == 0) return update<false, false, kMaster>();
  return a.nesterov ? update<true, true, kMaster>() : update<true, false, kMaster>();
}

}  // namespace

void sgd(Stream& stream, const SgdArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.momentum >= 0 && args.momentum < 1, "momentum is ", args.momentum, ", expected zero or more and below 1");
  contract.require(!args.nesterov || args.momentum > 0, "nesterov needs a momentum above 0");
  check_tensors(contract, args);
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const bool given = bool(args.tensors[i].m);
    contract.require(given == (args.momentum > 0), "tensors[", i, "].m is ", given ? "given" : "missing", ", but momentum is ",
                     args.momentum);
  }
  for (const SgdTensor& t : args.tensors) {
    const bool master = bool(t.master), momentum = args.momentum > 0;
    const MutView& p = master ? t.master : t.param;
    std::vector<View> inputs = {p, t.grad, args.lr, args.grad_scale};
    std::vector<MutView> outputs = {p};
    std::vector<float> parameters = {t.weight_decay};
    if (momentum) {
      inputs.push_back(t.m);
      outputs.push_back(t.m);
      parameters.push_back(args.momentum);
    }
    if (master) outputs.push_back(t.param);
    const ElementwiseFunction& function = master ? update_for<true>(args) : update_for<false>(args);
    elementwise(stream, {.function = &function, .inputs = inputs, .outputs = outputs, .parameters = parameters});
  }
}

Cost cost(const SgdArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const SgdTensor& t : a.tensors) {
    total.bytes += tensor_bytes(t);
    total.flops += (a.momentum > 0 ? 7.0 : 5.0) * double(t.param.numel());
  }
  return total;
}

}  // namespace weft
