#include "weft/ops/scale/scale.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

constexpr float kBy = 0.37f;

// The product of the factors rounds once, the product with x once more.
constexpr double kRoundings = 2;

Problem scaled(DType dtype, Shape shape, bool factor, Layout layout, Fill fill = normal()) {
  Problem p;
  p.input("x", dtype, shape, fill, layout).output("y", dtype, shape, layout);
  if (factor) p.input("factor", DType::f32, {}, uniform(0.5, 2));
  const auto args = [=](const Bound& b) { return ScaleArgs{b.view("x"), factor ? b.view("factor") : View{}, kBy, b.mut("y")}; };
  p.run = [=](Stream& stream, const Bound& b) { scale(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double y = t["x"][i] * kBy * (factor ? t["factor"][0] : 1);
      t["y"].expect(i, y, y, kRoundings);
    }
  };
  return p;
}

Problem in_place(DType dtype, Shape shape, Layout layout) {
  Problem p;
  p.in_place("x", dtype, shape, normal(), layout).input("factor", DType::f32, {1}, uniform(0.5, 2));
  p.run = [=](Stream& stream, const Bound& b) { scale(stream, {b.view("x"), b.view("factor"), kBy, b.mut("x")}); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double y = t["x"][i] * kBy * t["factor"][0];
      t[result("x")].expect(i, y, y, kRoundings);
    }
  };
  return p;
}

// The recorded rule: dx = dy s.
Problem rule(DType dtype, Shape shape) {
  Problem p;
  p.input("x", dtype, shape, normal()).input("factor", DType::f32, {}, uniform(0.5, 2))
      .input("dy", dtype, shape, normal(), Layout::padded_rows);
  p.output("dx", dtype, shape);
  p.run = [=](Stream&, const Bound& b) {
    Tensor x = b.tensor("x");
    const Tensor y = scale(x.set_requires_grad(), kBy, b.tensor("factor"));
    copy(y.node()->backward({{b.tensor("dy")}, {true}}).at(0), b.tensor("dx"));
  };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double dx = t["dy"][i] * kBy * t["factor"][0];
      t["dx"].expect(i, dx, dx, kRoundings);
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < t["x"].size(); ++i) loss += t["dy"][i] * t["x"][i] * kBy * t["factor"][0];
    return loss;
  };
  p.derivatives = {{"x", "dx"}};
  return p;
}

}  // namespace

void add_specs_scale(Registry& registry) {
  const std::string op = "scale";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Shape s : {Shape{}, Shape{1}, Shape{15}, Shape{16}, Shape{3, 257}, Shape{0, 4}, Shape{2, 40000}, Shape{5, 1}})
      for (bool factor : {false, true})
        registry.add({op, factor ? "factor" : "by", dtype, join(s), [=] { return scaled(dtype, s, factor, Layout::contiguous); }});
    registry.add({op, "factor", dtype, "7x65/padded", [=] { return scaled(dtype, {7, 65}, true, Layout::padded_rows); }});
    registry.add({op, "factor", dtype, "7x1/padded", [=] { return scaled(dtype, {7, 1}, true, Layout::padded_rows); }});
    registry.add({op, "by", dtype, "nan", [=] { return scaled(dtype, {3, 17}, false, Layout::contiguous, sprinkle(normal(), 5, 2, NAN)); }});
    registry.add({op, "by", dtype, "infinity",
        [=] { return scaled(dtype, {3, 17}, false, Layout::contiguous, sprinkle(normal(), 5, 2, -INFINITY)); }});
    registry.add({op, "in_place", dtype, "7x65", [=] { return in_place(dtype, {7, 65}, Layout::contiguous); }});
    registry.add({op, "in_place", dtype, "7x65/padded", [=] { return in_place(dtype, {7, 65}, Layout::padded_rows); }});
    registry.add({op, "rule", dtype, "4x19", [=] { return rule(dtype, {4, 19}); }});
    registry.bench({op, "factor", dtype, "8192x4096", [=] { return scaled(dtype, {8192, 4096}, true, Layout::contiguous); }});
  }
  registry.rejects(op, "integers", [](Device& d) { scale(Tensor::empty(d, {8}, DType::i32), 2); });
  registry.rejects(op, "undefined", [](Device&) { scale(Tensor(), 2); });
  registry.rejects(op, "factor_size", [](Device& d) { scale(zeros(d, {8}), 2, zeros(d, {2})); });
  registry.rejects(op, "factor_dtype", [](Device& d) { scale(zeros(d, {8}), 2, zeros(d, {}, DType::bf16)); });
  registry.rejects(op, "factor_gradient", [](Device& d) { scale(zeros(d, {8}), 2, zeros(d, {}).set_requires_grad()); });
  registry.rejects(op, "transposed_rows", [](Device& d) { scale(zeros(d, {8, 2}).permute({1, 0}), 2); });
  registry.rejects(op, "output_shape", [](Device& d) {
    const Tensor x = zeros(d, {8}), y = zeros(d, {7});
    scale(d.stream(), {x.view(), {}, 1, y.mut_view()});
  });
}

}  // namespace weft::spec
