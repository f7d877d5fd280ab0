#include "weft/ops/dropout/dropout.h"

#include <cmath>

#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

constexpr uint32_t kSite = 12345;

// 1 / (1 - p) where element i is kept, 0 where it is dropped.
double factor(const Truth& t, int64_t i, float p) {
  const auto word = [&](int k) { return uint32_t(t["state"][k]); };
  const uint32_t bits = philox({uint32_t(i / 4), kSite, word(2), word(3)}, {word(0), word(1)})[size_t(i % 4)];
  return double(bits) >= std::round(double(p) * 0x1p32) ? 1 / (1 - double(p)) : 0;
}

// The difference, the quotient and the product each round once. A dropped element is 0 whatever it was.
void expect_dropped(Truth& t, const char* x, const char* y, float p) {
  for (int64_t i = 0; i < t[x].size(); ++i) {
    const double f = factor(t, i, p), value = f == 0 ? 0 : t[x][i] * f;
    t[y].expect(i, value, value, 3);
  }
}

Problem forward(DType dtype, Shape shape, float p_drop, Fill fill = normal()) {
  Problem p;
  p.input("x", dtype, shape, fill).input("state", DType::u32, {4}, ids(int64_t(1) << 32)).output("y", dtype, shape);
  p.launches<DropoutArgs>(dropout, [=](DropoutArgs& a) { a.site = kSite, a.p = p_drop; });
  p.reference = [=](Truth& t) { expect_dropped(t, "x", "y", p_drop); };
  return p;
}

Problem rule(DType dtype, Shape shape, float p_drop) {
  Problem p;
  p.input("x", dtype, shape, normal())
      .input("state", DType::u32, {4}, ids(int64_t(1) << 32))
      .input("dy", dtype, shape, normal(), Layout::padded_rows);
  p.output("dx", dtype, shape);
  p.run = [=](Stream&, const Bound& b) {
    Tensor x = b.tensor("x");
    const Tensor y = dropout(x.set_requires_grad(), p_drop, b.tensor("state"), kSite);
    copy(y.node()->backward({{b.tensor("dy")}, {true}}).at(0), b.tensor("dx"));
  };
  p.reference = [=](Truth& t) { expect_dropped(t, "dy", "dx", p_drop); };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < t["x"].size(); ++i) loss += t["dy"][i] * t["x"][i] * factor(t, i, p_drop);
    return loss;
  };
  p.derivatives = {{"x", "dx"}};
  return p;
}

}  // namespace

void add_specs_dropout(Registry& registry) {
  const std::string op = "dropout";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{63}, Shape{65}, Shape{7, 257}, Shape{3, 0}, Shape{70001}})
      for (float p : {0.0f, 0.1f, 0.75f}) registry.add({op, "forward", dtype, join(s, "/", p), [=] { return forward(dtype, s, p); }});
    registry.add({op, "forward", dtype, "257/nearly_all", [=] { return forward(dtype, {257}, 0.99999994f); }});
    registry.add({op, "forward", dtype, "nan", [=] { return forward(dtype, {257}, 0.5f, sprinkle(normal(), 3, 1, NAN)); }});
    registry.add({op, "forward", dtype, "infinity", [=] { return forward(dtype, {257}, 0.5f, sprinkle(normal(), 3, 1, INFINITY)); }});
    registry.add({op, "rule", dtype, "5x33", [=] { return rule(dtype, {5, 33}, 0.4f); }});
    registry.bench({op, "forward", dtype, "8192x4096", [=] { return forward(dtype, {8192, 4096}, 0.1f); }});
  }
  registry.rejects(op, "p_of_one", [](Device& d) { dropout(zeros(d, {8}), 1, random_state(d, 1), 0); });
  registry.rejects(op, "negative_p", [](Device& d) { dropout(zeros(d, {8}), -0.1f, random_state(d, 1), 0); });
  registry.rejects(op, "nan_p", [](Device& d) { dropout(zeros(d, {8}), NAN, random_state(d, 1), 0); });
  registry.rejects(op, "state_dtype", [](Device& d) { dropout(zeros(d, {8}), 0.1f, zeros(d, {4}), 0); });
  registry.rejects(op, "undefined_state", [](Device& d) { dropout(zeros(d, {8}), 0.1f, Tensor(), 0); });
  registry.rejects(op, "undefined_x", [](Device& d) { dropout(Tensor(), 0.1f, random_state(d, 1), 0); });
  registry.rejects(op, "integers", [](Device& d) { dropout(zeros(d, {8}, DType::i32), 0.1f, random_state(d, 1), 0); });
  registry.rejects(op, "strided_x", [](Device& d) { dropout(zeros(d, {8, 4}).part(1, 0, 3), 0.1f, random_state(d, 1), 0); });
}

}  // namespace weft::spec
