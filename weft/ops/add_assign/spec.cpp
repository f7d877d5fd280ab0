#include "weft/ops/add_assign/add_assign.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

// One addition, one rounding.
Problem assigned(DType dst, DType src, Shape shape, Layout layout, Fill fill = normal()) {
  Problem p;
  p.in_place("dst", dst, shape, normal(), layout).input("src", src, shape, fill, layout);
  const auto args = [=](const Bound& b) { return AddAssignArgs{b.mut("dst"), b.view("src")}; };
  p.run = [=](Stream& stream, const Bound& b) { add_assign(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["src"].size(); ++i) {
      const double sum = t["dst"][i] + t["src"][i];
      t[result("dst")].expect(i, sum, sum, 1);
    }
  };
  return p;
}

Problem sum_rule(DType a, DType b_type, Shape shape) {
  Problem p;
  p.input("a", a, shape, normal(), Layout::padded_rows).input("b", b_type, shape, normal()).input("dy", a, shape, normal());
  p.output("y", a, shape).output("da", a, shape).output("db", b_type, shape);
  p.run = [=](Stream&, const Bound& b) {
    Tensor left = b.tensor("a"), right = b.tensor("b");
    const Tensor y = add(left.set_requires_grad(), right.set_requires_grad());
    const std::vector<Tensor> grads = y.node()->backward({{b.tensor("dy")}, {true, true}});
    copy(y.detach(), b.tensor("y"));
    copy(grads.at(0), b.tensor("da"));
    copy(grads.at(1), b.tensor("db"));
  };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["a"].size(); ++i) {
      const double sum = t["a"][i] + t["b"][i], dy = t["dy"][i];
      t["y"].expect(i, sum, sum, 1);
      t["da"].expect(i, dy, 0, 0);
      t["db"].expect(i, dy, 0, 0);
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < t["a"].size(); ++i) loss += t["dy"][i] * (t["a"][i] + t["b"][i]);
    return loss;
  };
  p.derivatives = {{"a", "da"}, {"b", "db"}};
  return p;
}

}  // namespace

void add_specs_add_assign(Registry& registry) {
  const std::string op = "add_assign";
  for (DType dst : {DType::f32, DType::bf16})
    for (DType src : {DType::f32, DType::bf16}) {
      const std::string variant = "add_" + std::string(name(src));
      for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{3, 257}, Shape{4, 0}, Shape{2, 40000}, Shape{2, 3, 64}})
        registry.add({op, variant, dst, join(s), [=] { return assigned(dst, src, s, Layout::contiguous); }});
      for (Shape s : {Shape{7, 65}, Shape{7, 1}})
        registry.add({op, variant, dst, join(s, "/padded"), [=] { return assigned(dst, src, s, Layout::padded_rows); }});
      registry.add({op, variant, dst, "nan", [=] { return assigned(dst, src, {3, 17}, Layout::contiguous, sprinkle(normal(), 5, 2, NAN)); }});
      registry.add({op, variant, dst, "infinity",
          [=] { return assigned(dst, src, {3, 17}, Layout::contiguous, sprinkle(normal(), 5, 2, INFINITY)); }});
      registry.add({op, "sum_" + std::string(name(src)), dst, "5x19", [=] { return sum_rule(dst, src, {5, 19}); }});
      registry.bench({op, variant, dst, "8192x4096", [=] { return assigned(dst, src, {8192, 4096}, Layout::contiguous); }});
    }
  registry.rejects(op, "shape", [](Device& d) { add_assign(zeros(d, {2, 8}), zeros(d, {8})); });
  registry.rejects(op, "integers", [](Device& d) { add_assign(zeros(d, {8}, DType::i32), zeros(d, {8}, DType::i32)); });
  registry.rejects(op, "undefined_src", [](Device& d) { add_assign(zeros(d, {8}), Tensor()); });
  registry.rejects(op, "undefined_dst", [](Device& d) { add_assign(Tensor(), zeros(d, {8})); });
  registry.rejects(op, "gradient_wanted", [](Device& d) { add_assign(zeros(d, {8}), zeros(d, {8}).set_requires_grad()); });
  registry.rejects(op, "transposed_rows", [](Device& d) { add_assign(zeros(d, {8, 2}).permute({1, 0}), zeros(d, {2, 8})); });
  registry.rejects(op, "sum_of_shapes", [](Device& d) { add(zeros(d, {2, 8}), zeros(d, {8, 2})); });
  registry.rejects(op, "sum_of_undefined", [](Device& d) { add(zeros(d, {2, 8}), Tensor()); });
}

}  // namespace weft::spec
