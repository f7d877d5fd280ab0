#include "weft/ops/adamw/adamw.h"

#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Item {
  DType param, grad;
  int64_t n;
  float weight_decay;
};

struct Setting {
  int64_t steps = 1;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool scaled = false;
  int64_t first_step = 1;
};

std::string key(const char* name, size_t i) { return name + std::to_string(i); }

// One element: its values in float64 and, to first order, how far f32 may be from them. Each term below is one
// rounding: of a constant to f32, of a product, of a sum.
struct Element {
  double p, m, v;
  double ep = 0, em = 0, ev = 0;
  static constexpr double u = 0x1p-24;

  void step(double grad, double grad_scale, double lr, double weight_decay, const Setting& s, double t) {
    const double g = grad * grad_scale, eg = s.scaled ? u * std::abs(g) : 0, rest1 = 1 - s.beta1, rest2 = 1 - s.beta2;
    const double m0 = s.beta1 * m, v0 = s.beta2 * v;
    m = m0 + rest1 * g;
    em = s.beta1 * em + 2 * u * std::abs(m0) + u * std::abs(rest1 * g) + rest1 * eg + u * std::abs(m);
    v = v0 + rest2 * g * g;
    ev = s.beta2 * ev + 2 * u * v0 + rest2 * (2 * std::abs(g) * eg + 2 * u * g * g) + u * v;
    const double root = std::sqrt(v), spread = 1 / std::sqrt(1 - std::pow(s.beta2, t));
    const double eroot = (root > 0 ? ev / (2 * root) : 0) + u * root;
    const double bottom = root * spread + s.eps, ebottom = eroot * spread + u * root * spread + u * s.eps + u * bottom;
    const double change = m / bottom, echange = em / bottom + std::abs(change) * (ebottom / bottom + u);
    const double decay = lr * weight_decay, decayed = p - decay * p, size = lr / (1 - std::pow(s.beta1, t));
    ep = ep * (1 - decay) + u * std::abs(decay * p) + u * std::abs(decayed);
    p = decayed - size * change;
    ep += size * echange + u * std::abs(size * change) + u * std::abs(p);
  }
};
constexpr double kSecondOrder = 1.01;  // products of errors, a few n u of the error itself

void expect_item(Truth& t, const Item& item, size_t i, const Setting& s) {
  const bool master = item.param == DType::bf16;
  const std::string p = key(master ? "master" : "param", i), m = key("m", i), v = key("v", i);
  for (int64_t k = 0; k < item.n; ++k) {
    Element e{t[p][k], t[m][k], t[v][k]};
    for (int64_t step = 0; step < s.steps; ++step)
      e.step(t[key("grad", i)][step * item.n + k], s.scaled ? t["grad_scale"][0] : 1, t["lr"][0], item.weight_decay, s,
             double(s.first_step + step));
    t[result(p)].expect_within(k, e.p, kSecondOrder * e.ep);
    t[result(m)].expect_within(k, e.m, kSecondOrder * e.em);
    t[result(v)].expect_within(k, e.v, kSecondOrder * e.ev);
    if (master) t[key("param", i)].expect_within(k, e.p, kSecondOrder * e.ep);
  }
}

Problem steps(std::vector<Item> items, Setting s, Fill grads = normal(), bool fresh = true) {
  Problem p;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const Shape shape{item.n};
    item.param == DType::f32 ? p.in_place(key("param", i), DType::f32, shape, normal())
                             : p.output(key("param", i), item.param, shape).in_place(key("master", i), DType::f32, shape, normal());
    p.input(key("grad", i), item.grad, {s.steps, item.n}, grads);
    p.in_place(key("m", i), DType::f32, shape, fresh ? constant(0) : normal(0.1))
        .in_place(key("v", i), DType::f32, shape, fresh ? constant(0) : uniform(0, 1));
  }
  p.input("lr", DType::f32, {}, constant(s.lr));
  p.input("step", DType::i32, {s.steps}, [=](PhiloxStream&, int64_t i) { return double(s.first_step + i); });
  if (s.scaled) p.input("grad_scale", DType::f32, {1}, constant(0.37));
  const auto args = [=](const Bound& b, int64_t step) {
    AdamwArgs a{{},      b.view("lr"), b.tensor("step").part(0, step, step + 1).view(), s.scaled ? b.view("grad_scale") : View{}, s.beta1,
                s.beta2, s.eps};
    for (size_t i = 0; i < items.size(); ++i)
      a.tensors.push_back({b.mut(key("param", i)), b.tensor(key("grad", i)).part(0, step, step + 1).reshape({items[i].n}).view(),
                           b.mut(key("m", i)), b.mut(key("v", i)), items[i].param == DType::bf16 ? b.mut(key("master", i)) : MutView{},
                           items[i].weight_decay});
    return a;
  };
  p.run = [=](Stream& stream, const Bound& b) {
    for (int64_t step = 0; step < s.steps; ++step) adamw(stream, args(b, step));
  };
  p.cost = [=](const Bound& b) {
    const Cost one = cost(args(b, 0));
    return Cost{one.bytes * double(s.steps), one.flops * double(s.steps)};
  };
  p.reference = [=](Truth& t) {
    for (size_t i = 0; i < items.size(); ++i) expect_item(t, items[i], i, s);
  };
  return p;
}

// A launch on zeros of length 8, after `spoil` has changed them.
struct Attempt {
  Tensor param, grad, m, v, master, lr, step;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  float weight_decay = 0.1f;
};
void rejects(Registry& registry, const char* name, std::function<void(Attempt&)> spoil) {
  registry.rejects("adamw", name, [=](Device& d) {
    const Shape s{8};
    Attempt a{zeros(d, s), zeros(d, s), zeros(d, s), zeros(d, s), Tensor(), full(d, {}, 1e-3), full(d, {}, 1, DType::i32)};
    spoil(a);
    adamw(d.stream(), {{{a.param.mut_view(), a.grad.view(), a.m.mut_view(), a.v.mut_view(), a.master.mut_view(), a.weight_decay}},
                       a.lr.view(),
                       a.step.view(),
                       {},
                       a.beta1,
                       a.beta2,
                       a.eps});
  });
}

}  // namespace

void add_specs_adamw(Registry& registry) {
  const std::string op = "adamw";
  const DType f32 = DType::f32, bf16 = DType::bf16;
  for (DType param : {f32, bf16}) {
    for (DType grad : {f32, bf16}) {
      const std::string variant = grad == param ? "step" : "step_" + std::string(name(grad)) + "_grad";
      for (int64_t n : {1, 15, 16, 17, 65, 1000, 70001, 0})
        registry.add({op, variant, param, dims({n}), [=] { return steps({{param, grad, n, 0.1f}}, {}); }});
      registry.add({op, variant, param, "257/scaled", [=] { return steps({{param, grad, 257, 0.1f}}, {.scaled = true}); }});
      registry.add({op, variant, param, "257/later",
                    [=] { return steps({{param, grad, 257, 0}}, {.scaled = true, .first_step = 1000000}, normal(), false); }});
      registry.add({op, variant, param, "257/many_steps",
                    [=] { return steps({{param, grad, 257, 0.01f}}, {.steps = 12, .lr = 0.02, .beta2 = 0.95}); }});
    }
    const std::vector<Item> several = {
        {param, f32, 33, 0.1f}, {f32, bf16, 40000, 0}, {bf16, bf16, 17, 0.2f}, {param, bf16, 0, 0}, {f32, f32, 1, 0.3f}};
    registry.add({op, "several", param, "five", [=] { return steps(several, {.steps = 3, .scaled = true}); }});
    registry.add({op, "step", param, "zero_gradient", [=] { return steps({{param, f32, 33, 0.1f}}, {}, constant(0)); }});
    registry.add({op, "step", param, "nan", [=] { return steps({{param, f32, 33, 0.1f}}, {}, sprinkle(normal(), 9, 1, NAN)); }});
    registry.add({op, "step", param, "plain_sign", [=] { return steps({{param, f32, 33, 0}}, {.beta1 = 0, .beta2 = 0}); }});
    if (param == f32) registry.bench_gpu({op, "step", param, "500000000", [=] { return steps({{param, param, 500000000, 0.1f}}, {}); }});
    registry.bench({op, "step", param, "10747392", [=] { return steps({{param, param, 10747392, 0.1f}}, {}); }});
  }
  registry.add({op, "step", f32, "no_tensors", [] { return steps({}, {}); }});
  registry.golden({op, "golden", "adamw.safetensors", [=](const GoldenCase& g) {
                     const Setting s{.steps = g.integer("steps"),
                                     .lr = g.number("lr"),
                                     .beta1 = g.number("beta1"),
                                     .beta2 = g.number("beta2"),
                                     .eps = g.number("eps")};
                     Problem p = steps({{f32, f32, g.integer("n"), float(g.number("weight_decay"))}}, s);
                     p.given("param0", g.values("p0")).given("grad0", g.values("grads"));
                     return p.golden("param0", g.values("p")).golden("m0", g.values("m")).golden("v0", g.values("v"));
                   }});

  rejects(registry, "step_zero", [](Attempt& a) { a.step = zeros(a.step.device(), {}, DType::i32); });
  rejects(registry, "step_dtype", [](Attempt& a) { a.step = full(a.lr.device(), {}, 1); });
  rejects(registry, "lr_size", [](Attempt& a) { a.lr = zeros(a.param.device(), {2}); });
  rejects(registry, "undefined_lr", [](Attempt& a) { a.lr = Tensor(); });
  rejects(registry, "undefined_grad", [](Attempt& a) { a.grad = Tensor(); });
  rejects(registry, "grad_shape", [](Attempt& a) { a.grad = zeros(a.param.device(), {9}); });
  rejects(registry, "moment_dtype", [](Attempt& a) { a.v = zeros(a.param.device(), {8}, DType::bf16); });
  rejects(registry, "strided_param", [](Attempt& a) { a.param = zeros(a.m.device(), {8, 2}).part(1, 0, 1).permute({1, 0}).part(0, 0, 1); });
  rejects(registry, "bf16_without_master", [](Attempt& a) { a.param = zeros(a.m.device(), {8}, DType::bf16); });
  rejects(registry, "f32_with_master", [](Attempt& a) { a.master = zeros(a.m.device(), {8}); });
  rejects(registry, "beta1_of_one", [](Attempt& a) { a.beta1 = 1; });
  rejects(registry, "negative_beta2", [](Attempt& a) { a.beta2 = -0.1; });
  rejects(registry, "negative_eps", [](Attempt& a) { a.eps = -1; });
  rejects(registry, "negative_decay", [](Attempt& a) { a.weight_decay = -0.1f; });
}

}  // namespace weft::spec
