#include "weft/ops/sgd/sgd.h"

#include "weft/ops/fill/fill.h"
#include "weft/ops/momentum_problem.h"

namespace weft::spec {
namespace {

constexpr double u = 0x1p-24;

// Each u is one rounding: the scaled gradient, each fused multiply-add, lr times the direction, the difference.
void advance(MomentumElement& e, double grad, double grad_scale, double lr, double wd, double mu, bool nesterov) {
  const double scaled = grad * grad_scale, d = scaled + wd * e.p;
  const double ed = u * std::abs(scaled) + wd * e.ep + u * std::abs(d);
  const double before = e.m;
  e.m = mu * before + d;
  e.em = mu * e.em + ed + u * std::abs(e.m);
  const double direction = nesterov ? d + mu * e.m : e.m;
  const double ed2 = nesterov ? ed + mu * e.em + u * std::abs(direction) : e.em;
  e.p -= lr * direction;
  e.ep += lr * ed2 + u * std::abs(lr * direction) + u * std::abs(e.p);
}

SgdArgs args_of(const std::vector<MomentumRule::Views>& views, const View& lr, const View& scale, float mu, bool nesterov) {
  SgdArgs a{{}, lr, scale, mu, nesterov};
  for (const auto& v : views) a.tensors.push_back({v.param, v.grad, v.m, v.master, v.weight_decay});
  return a;
}

MomentumRule rule(float mu, bool nesterov) {
  return {.has_m = mu > 0,
          .launch = [=](Stream& stream, const auto& views, const View& lr,
                        const View& scale) { sgd(stream, args_of(views, lr, scale, mu, nesterov)); },
          .cost = [=](const auto& views, const View& lr, const View& scale) { return cost(args_of(views, lr, scale, mu, nesterov)); },
          .advance = [=](MomentumElement& e, double grad, double scale, double lr,
                         double wd) { advance(e, grad, scale, lr, wd, double(mu), nesterov); }};
}

// A launch on zeros of length 8, after `spoil` has changed them.
struct Attempt {
  Tensor param, grad, m, master, lr, scale;
  float momentum = 0.9f, weight_decay = 0.1f;
  bool nesterov = false;
};
void rejects(Registry& registry, const char* name, std::function<void(Attempt&, Device&)> spoil) {
  registry.rejects("sgd", name, [=](Device& d) {
    Attempt a{zeros(d, {8}), zeros(d, {8}), zeros(d, {8}), Tensor(), full(d, {}, 1e-3), full(d, {}, 1)};
    spoil(a, d);
    sgd(d.stream(), {{{a.param.mut_view(), a.grad.view(), a.m.mut_view(), a.master.mut_view(), a.weight_decay}},
                     a.lr.view(),
                     a.scale.view(),
                     a.momentum,
                     a.nesterov});
  });
}

}  // namespace

void add_specs_sgd(Registry& registry) {
  add_momentum_cases(registry, "sgd", "momentum", rule(0.9f, false));
  add_momentum_cases(registry, "sgd", "nesterov", rule(0.95f, true));
  add_momentum_cases(registry, "sgd", "plain", rule(0, false));
  rejects(registry, "grad_shape", [](Attempt& a, Device& d) { a.grad = zeros(d, {7}); });
  rejects(registry, "grad_strided", [](Attempt& a, Device& d) { a.grad = zeros(d, {8, 2}).part(1, 0, 1).permute({1, 0}); });
  rejects(registry, "param_integers", [](Attempt& a, Device& d) { a.param = zeros(d, {8}, DType::i32); });
  rejects(registry, "momentum_missing", [](Attempt& a, Device&) { a.m = Tensor(); });
  rejects(registry, "momentum_unused", [](Attempt& a, Device&) { a.momentum = 0; });
  rejects(registry, "momentum_of_one", [](Attempt& a, Device&) { a.momentum = 1; });
  rejects(registry, "momentum_nan", [](Attempt& a, Device&) { a.momentum = NAN; });
  rejects(registry, "nesterov_without_momentum", [](Attempt& a, Device&) { a.momentum = 0, a.m = Tensor(), a.nesterov = true; });
  rejects(registry, "master_missing", [](Attempt& a, Device& d) { a.param = zeros(d, {8}, DType::bf16); });
  rejects(registry, "master_unused", [](Attempt& a, Device& d) { a.master = zeros(d, {8}); });
  rejects(registry, "negative_decay", [](Attempt& a, Device&) { a.weight_decay = -1; });
  rejects(registry, "lr_size", [](Attempt& a, Device& d) { a.lr = zeros(d, {2}); });
  rejects(registry, "scale_missing", [](Attempt& a, Device&) { a.scale = Tensor(); });
}

}  // namespace weft::spec
