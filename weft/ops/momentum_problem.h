// Problems for optimizers that keep one momentum per element: several tensors, several steps, gradients step by step.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "weft/spec/registry.h"

namespace weft::spec {

struct MomentumItem {
  DType param, grad;
  int64_t n;
  float weight_decay;
};

struct MomentumSetting {
  int64_t steps = 1;
  double lr = 1e-3, grad_scale = 1;
};

// One element in float64 and, to first order, how far f32 may be from it.
struct MomentumElement {
  double p, m;
  double ep = 0, em = 0;
};

// The difference between the optimizers. `launch` runs one step on views; `advance` is the float64 truth of one step.
struct MomentumRule {
  struct Views {
    MutView param;
    View grad;
    MutView m, master;
    float weight_decay;
  };
  bool has_m = true;
  std::function<void(Stream&, const std::vector<Views>&, const View& lr, const View& grad_scale)> launch;
  std::function<Cost(const std::vector<Views>&, const View& lr, const View& grad_scale)> cost;
  std::function<void(MomentumElement&, double grad, double grad_scale, double lr, double weight_decay)> advance;
};

constexpr double kSecondOrder = 1.01;  // products of errors, a few n u of the error itself

inline Problem momentum_problem(std::vector<MomentumItem> items, MomentumSetting s, MomentumRule rule, Fill grads = normal()) {
  const auto key = [](const char* name, size_t i) { return join(name, i); };
  Problem p;
  for (size_t i = 0; i < items.size(); ++i) {
    const MomentumItem& item = items[i];
    const Shape shape{item.n};
    item.param == DType::f32 ? p.in_place(key("param", i), DType::f32, shape, normal())
                             : p.output(key("param", i), item.param, shape).in_place(key("master", i), DType::f32, shape, normal());
    p.input(key("grad", i), item.grad, {s.steps, item.n}, grads);
    if (rule.has_m) p.in_place(key("m", i), DType::f32, shape, normal(0.1));
  }
  p.input("lr", DType::f32, {}, constant(s.lr)).input("grad_scale", DType::f32, {1}, constant(s.grad_scale));
  const auto views = [=](const Bound& b, int64_t step) {
    std::vector<MomentumRule::Views> list;
    for (size_t i = 0; i < items.size(); ++i)
      list.push_back({b.mut(key("param", i)), b.tensor(key("grad", i)).part(0, step, step + 1).reshape({items[i].n}).view(),
                      rule.has_m ? b.mut(key("m", i)) : MutView{}, items[i].param == DType::bf16 ? b.mut(key("master", i)) : MutView{},
                      items[i].weight_decay});
    return list;
  };
  p.run = [=](Stream& stream, const Bound& b) {
    for (int64_t step = 0; step < s.steps; ++step) rule.launch(stream, views(b, step), b.view("lr"), b.view("grad_scale"));
  };
  p.cost = [=](const Bound& b) {
    const Cost one = rule.cost(views(b, 0), b.view("lr"), b.view("grad_scale"));
    return Cost{one.bytes * double(s.steps), one.flops * double(s.steps)};
  };
  p.reference = [=](Truth& t) {
    for (size_t i = 0; i < items.size(); ++i) {
      const bool master = items[i].param == DType::bf16;
      const std::string name = key(master ? "master" : "param", i), m = key("m", i);
      for (int64_t k = 0; k < items[i].n; ++k) {
        MomentumElement e{t[name][k], rule.has_m ? t[m][k] : 0};
        for (int64_t step = 0; step < s.steps; ++step)
          rule.advance(e, t[key("grad", i)][step * items[i].n + k], t["grad_scale"][0], t["lr"][0], items[i].weight_decay);
        t[result(name)].expect_within(k, e.p, kSecondOrder * e.ep);
        if (rule.has_m) t[result(m)].expect_within(k, e.m, kSecondOrder * e.em);
        if (master) t[key("param", i)].expect_within(k, e.p, kSecondOrder * e.ep);
      }
    }
  };
  return p;
}

// The sizes and mixtures every such optimizer is held to.
inline void add_momentum_cases(Registry& registry, const std::string& op, const std::string& variant, const MomentumRule& rule) {
  const DType f32 = DType::f32, bf16 = DType::bf16;
  for (DType param : {f32, bf16}) {
    const auto add = [&](const std::string& name, std::vector<MomentumItem> items, MomentumSetting s, Fill grads = normal()) {
      registry.add({op, variant, param, name, [=] { return momentum_problem(items, s, rule, grads); }});
    };
    for (DType grad : {f32, bf16})
      for (int64_t n : {1, 15, 16, 17, 65, 1000, 70001, 0}) add(join(n, "/", grad, "_grad"), {{param, grad, n, 0.1f}}, {});
    add("257/clipped", {{param, f32, 257, 0.1f}}, {.grad_scale = 0.37});
    add("257/many_steps", {{param, f32, 257, 0.01f}}, {.steps = 12, .lr = 0.02, .grad_scale = 0.9});
    add("five", {{param, f32, 33, 0.1f}, {f32, bf16, 40000, 0}, {bf16, bf16, 17, 0.2f}, {param, bf16, 0, 0}, {f32, f32, 1, 0.3f}},
        {.steps = 3});
    add("zero_gradient", {{param, f32, 33, 0.1f}}, {}, constant(0));
    add("nan", {{param, f32, 33, 0.1f}}, {}, sprinkle(normal(), 9, 1, NAN));
    registry.bench({op, variant, param, "10747392", [=] { return momentum_problem({{param, param, 10747392, 0.1f}}, {}, rule); }});
  }
  registry.add({op, variant, f32, "no_tensors", [=] { return momentum_problem({}, {}, rule); }});
}

}  // namespace weft::spec
