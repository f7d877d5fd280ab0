#include "weft/ops/muon/muon.h"

#include <algorithm>
#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/optimizer_contract.h"

namespace weft {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

void launch(Stream& stream, const ElementwiseFunction& function, const std::vector<View>& inputs, const std::vector<MutView>& outputs,
            const std::vector<float>& parameters) {
  elementwise(stream, {.function = &function, .inputs = inputs, .outputs = outputs, .parameters = parameters});
}

// m moved towards the gradient, and the direction ahead of it.
Tensor direction(Stream& stream, const MuonArgs& args, const MuonTensor& t) {
  static const auto f = fuse([](Expr grad, Expr scale, Expr m, Param mu, Param rest) {
    const Expr g = grad * scale, fresh = rest * g, next = fma(mu, m, fresh);
    return std::tuple(next, fma(mu, next, fresh));
  });
  Tensor d = Tensor::empty(stream.device(), t.param.shape);
  launch(stream, f.function(), {t.grad, args.grad_scale, t.m}, {t.m, d.mut_view()}, {float(args.momentum), float(1 - args.momentum)});
  return d;
}

void normalise(Stream& stream, const Tensor& x) {
  static const auto f = fuse([](Expr v, Expr norm) { return v / (norm + 1e-7f); });
  const GradientNorm size = gradient_norm(stream.device(), std::vector<Tensor>{x}, 0);
  launch(stream, f.function(), {x.view(), size.norm.view()}, {x.mut_view()}, {});
}

// One step of the quintic: X is read, the result goes to `next`.
void iterate(Stream& stream, const Tensor& x, const Tensor& gram, const Tensor& poly, const Tensor& next) {
  const bool tall = x.shape()[0] > x.shape()[1];
  matmul(stream, {.a = x.view(),
                  .b = x.view(),
                  .c = gram.mut_view(),
                  .bias = {},
                  .pre = {},
                  .transpose_a = tall,
                  .transpose_b = !tall,
                  .any_order = true});
  copy(gram, poly);
  matmul(stream,
         {.a = gram.view(), .b = gram.view(), .c = poly.mut_view(), .bias = {}, .pre = {}, .alpha = kC, .beta = kB, .any_order = true});
  copy(x, next);
  const Tensor &left = tall ? x : poly, &right = tall ? poly : x;
  matmul(stream, {.a = left.view(), .b = right.view(), .c = next.mut_view(), .bias = {}, .pre = {}, .beta = kA, .any_order = true});
}

Tensor orthogonal(Stream& stream, Tensor x, int iterations) {
  const int64_t side = std::min(x.shape()[0], x.shape()[1]);
  const Tensor gram = Tensor::empty(stream.device(), {side, side}), poly = Tensor::empty(stream.device(), {side, side});
  Tensor next = Tensor::empty(stream.device(), x.shape());
  for (int i = 0; i < iterations; ++i) {
    iterate(stream, x, gram, poly, next);
    std::swap(x, next);
  }
  return x;
}

template <bool kMaster>
const ElementwiseFunction& update() {
  static const auto f = fuse([](Expr p, Expr x, Expr lr, Param wd, Param scale) {
    const Expr after = p - lr * fma(wd, p, scale * x);
    if constexpr (kMaster)
      return std::tuple(after, after);
    else
      return std::tuple(after);
  });
  return f.function();
}

}  // namespace

void muon(Stream& stream, const MuonArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.momentum >= 0 && args.momentum < 1, "momentum is ", args.momentum, ", expected zero or more and below 1");
  contract.require(args.iterations >= 0 && args.iterations <= 100, "iterations is ", args.iterations, ", expected 0 to 100");
  check_tensors(contract, args);
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const MuonTensor& t = args.tensors[i];
    contract.require(t.param.numel() > 0, "tensors[", i, "].param must be a matrix with elements, got shape ", t.param.shape);
    contract.require(std::isfinite(t.scale), "tensors[", i, "].scale is ", t.scale);
  }
  for (const MuonTensor& t : args.tensors) {
    Tensor x = direction(stream, args, t);
    normalise(stream, x);
    x = orthogonal(stream, std::move(x), args.iterations);
    const MutView& p = t.master ? t.master : t.param;
    std::vector<MutView> outputs = {p};
    if (t.master) outputs.push_back(t.param);
    launch(stream, t.master ? update<true>() : update<false>(), {p, x.view(), args.lr}, outputs, {t.weight_decay, t.scale});
  }
}

Cost cost(const MuonArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const MuonTensor& t : a.tensors) {
    const double n = double(t.param.numel()), side = double(std::min(t.param.shape[0], t.param.shape[1]));
    total.bytes += tensor_bytes(t);
    total.flops += 16 * n + a.iterations * (4 * n * side + 2 * side * side * side);
  }
  return total;
}

}  // namespace weft
