#include "weft/nn/experts.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/expert_order/expert_order.h"
#include "weft/ops/expert_rows/expert_rows.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/grouped_matmul/grouped_matmul.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/route/route.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// One column of each pair of pairs [P, 2 F]: [P, F]; `side` 0 or 1.
Tensor one_of_pairs(const Tensor& pairs, int64_t side) {
  const int64_t P = pairs.shape()[0], F = pairs.shape()[1] / 2;
  return contiguous(slice(pairs.reshape({P, F, 2}), 2, side, side + 1)).reshape({P, F});
}

}  // namespace

RouterBalance RouterBalance::plus(const Tensor& logits, const ExpertOrder& order, const Tensor& real) const {
  static const auto product = fuse([](Expr p, Expr w) { return p * w; });
  const int64_t E = logits.shape()[1];
  const Tensor probability = softmax(cast(logits, DType::f32));
  const Tensor sums = reduce_sum(real ? product(probability, real) : probability, 0);
  const Tensor chosen = Tensor::empty(logits.device(), {E, 1});
  const Tensor ones = real ? expert_rows(real, order) : full(logits.device(), {order.rows.numel(), 1}, 1);
  grouped_sums(logits.device().stream(), {ones.view(), order.starts.view(), chosen.mut_view()});
  const Tensor counted = chosen.reshape({E});
  if (!probabilities) return {sums, counted};
  return {add(probabilities, sums), add(counts.detach(), counted)};
}

Tensor RouterBalance::loss(int64_t chosen) const {
  static const auto product = fuse([](Expr p, Expr n, Expr chosen, Param by) {
    const Expr all = max(chosen, 1.0f);  // if all tokens are padding, the loss is 0
    return (p / all) * ((n / all) * by);
  });
  const Tensor n = counts.detach();
  return sum_all(product(probabilities, n, sum_all(n), float(double(probabilities.numel()) * double(chosen) * double(chosen))));
}

Experts::Experts(Weights& weights, const std::string& prefix, const Options& o) : options(o) {
  const Init normal = Init::normal(o.stddev);
  const std::string gate = prefix + (o.clamped ? "router" : "gate"), experts = prefix + "experts.";
  const int64_t E = o.experts, C = o.in, F = o.size;
  const auto matrices = [&](const char* name, int64_t out, int64_t in) {
    return weights.take(experts + name, o.clamped ? Shape{E, in, out} : Shape{E, out, in}, normal, ParameterRole::experts);
  };
  const auto biases = [&](const char* name, int64_t size) {
    return weights.take(experts + name, {E, size}, Init::zeros(), ParameterRole::vector);
  };
  router = weights.take(gate + ".weight", {E, C}, normal);
  if (o.clamped) router_bias = weights.take(gate + ".bias", {E}, Init::zeros());
  gate_up = matrices("gate_up_proj", 2 * F, C);
  if (o.clamped) gate_up_bias = biases("gate_up_proj_bias", 2 * F);
  down = matrices("down_proj", C, F);
  if (o.clamped) down_bias = biases("down_proj_bias", C);
}

Tensor Experts::hidden(const Tensor& both) const {
  if (!options.clamped) return gated(options.activation, both);
  static const auto clamped = fuse([](Expr g, Expr u, Param slope, Param limit, Param least) {
    const Expr gate = min(g, limit), up = max(min(u, limit), least);
    return (up + 1.0f) * (gate * sigmoid(gate * slope));
  });
  return clamped(one_of_pairs(both, 0), one_of_pairs(both, 1), options.gate_slope, options.gate_limit, -options.gate_limit);
}

Tensor Experts::operator()(const Tensor& x, RouterBalance* balance, const Tensor& real, const SeeIntermediate& see) const {
  const int64_t C = options.in, T = x.numel() / C;
  const Tensor tokens = contiguous(x).reshape({T, C});
  const Tensor logits = matmul(tokens, router, {.transpose_b = true, .bias = router_bias});
  const auto [ids, weights] = route(logits, options.chosen, options.of_chosen);
  const ExpertOrder order = expert_order(ids, options.experts);
  if (balance) *balance = balance->plus(logits, order, real);
  const Tensor both = grouped_matmul(expert_rows(tokens, order), gate_up, order.starts, !options.clamped, gate_up_bias);
  const Tensor rows = grouped_matmul(hidden(both), down, order.starts, !options.clamped, down_bias);
  const Tensor y = expert_sum(rows, order, weights).reshape(x.shape());
  if (see) {
    Shape shape = x.shape();
    shape[shape.rank() - 1] = options.experts;
    see("router", logits.reshape(shape)), see("experts", y);
  }
  return y;
}

}  // namespace weft
