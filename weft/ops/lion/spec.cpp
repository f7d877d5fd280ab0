#include "weft/ops/lion/lion.h"

#include "weft/ops/fill/fill.h"
#include "weft/ops/momentum_problem.h"

namespace weft::spec {
namespace {

constexpr double u = 0x1p-24;

// Each u is one rounding: of a constant to f32, a product, a fused multiply-add, a difference. Where c is no larger than
// its error its sign is not known, and the step may go either way.
void advance(MomentumElement& e, double grad, double grad_scale, double lr, double wd, double beta1, double beta2) {
  const double g = grad * grad_scale, eg = u * std::abs(g);
  const auto mix = [&](double beta, double& error) {
    const double old = beta * e.m, fresh = (1 - beta) * g, mixed = old + fresh;
    error = beta * e.em + 2 * u * std::abs(old) + (1 - beta) * eg + u * std::abs(fresh) + u * std::abs(mixed);
    return mixed;
  };
  double ec, em;
  const double c = mix(beta1, ec), m = mix(beta2, em);
  const double sign = std::isnan(c) ? c : c > 0 ? 1 : c < 0 ? -1 : 0;
  const double direction = sign + wd * e.p, unsure = c != 0 && std::abs(c) <= ec ? 2 : 0;
  const double after = e.p - lr * direction;
  e.ep = e.ep * (1 + lr * wd) + lr * unsure + 2 * u * std::abs(lr * direction) + u * std::abs(after);
  e.p = after;
  e.m = m;
  e.em = em;
}

LionArgs args_of(const std::vector<MomentumRule::Views>& views, const View& lr, const View& scale, double beta1, double beta2) {
  LionArgs a{{}, lr, scale, beta1, beta2};
  for (const auto& v : views) a.tensors.push_back({v.param, v.grad, v.m, v.master, v.weight_decay});
  return a;
}

MomentumRule rule(double beta1, double beta2) {
  return {.has_m = true,
          .launch = [=](Stream& stream, const auto& views, const View& lr,
                        const View& scale) { lion(stream, args_of(views, lr, scale, beta1, beta2)); },
          .cost = [=](const auto& views, const View& lr, const View& scale) { return cost(args_of(views, lr, scale, beta1, beta2)); },
          .advance = [=](MomentumElement& e, double grad, double scale, double lr,
                         double wd) { advance(e, grad, scale, lr, wd, beta1, beta2); }};
}

struct Attempt {
  Tensor param, grad, m, master, lr, scale;
  double beta1 = 0.9, beta2 = 0.99;
  float weight_decay = 0.1f;
};
void rejects(Registry& registry, const char* name, std::function<void(Attempt&, Device&)> spoil) {
  registry.rejects("lion", name, [=](Device& d) {
    Attempt a{zeros(d, {8}), zeros(d, {8}), zeros(d, {8}), Tensor(), full(d, {}, 1e-3), full(d, {}, 1)};
    spoil(a, d);
    lion(d.stream(), {{{a.param.mut_view(), a.grad.view(), a.m.mut_view(), a.master.mut_view(), a.weight_decay}},
                      a.lr.view(),
                      a.scale.view(),
                      a.beta1,
                      a.beta2});
  });
}

}  // namespace

void add_specs_lion(Registry& registry) {
  add_momentum_cases(registry, "lion", "step", rule(0.9, 0.99));
  add_momentum_cases(registry, "lion", "forgetful", rule(0, 0));
  rejects(registry, "grad_shape", [](Attempt& a, Device& d) { a.grad = zeros(d, {7}); });
  rejects(registry, "param_integers", [](Attempt& a, Device& d) { a.param = zeros(d, {8}, DType::i32); });
  rejects(registry, "momentum_missing", [](Attempt& a, Device&) { a.m = Tensor(); });
  rejects(registry, "momentum_bf16", [](Attempt& a, Device& d) { a.m = zeros(d, {8}, DType::bf16); });
  rejects(registry, "beta1_of_one", [](Attempt& a, Device&) { a.beta1 = 1; });
  rejects(registry, "beta2_negative", [](Attempt& a, Device&) { a.beta2 = -0.1; });
  rejects(registry, "master_missing", [](Attempt& a, Device& d) { a.param = zeros(d, {8}, DType::bf16); });
  rejects(registry, "master_unused", [](Attempt& a, Device& d) { a.master = zeros(d, {8}); });
  rejects(registry, "infinite_decay", [](Attempt& a, Device&) { a.weight_decay = INFINITY; });
  rejects(registry, "lr_dtype", [](Attempt& a, Device& d) { a.lr = zeros(d, {}, DType::bf16); });
  rejects(registry, "scale_missing", [](Attempt& a, Device&) { a.scale = Tensor(); });
}

}  // namespace weft::spec
