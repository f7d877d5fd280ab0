// The named functions, as tensor functions: their values, and the rules that they record.
#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/activation_truth.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/elementwise/problems.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16};

Tensor leaf(const Bound& b, const char* name) { return b.tensor(name).detach().set_requires_grad(); }

// The gradients by the recorded rule of y for "dy", each in the operand of its name.
void back(const Tensor& y, const Bound& b, std::initializer_list<const char*> names) {
  const std::vector<Tensor> grads = y.node()->backward({{b.tensor("dy")}, std::vector<bool>(names.size(), true)});
  size_t i = 0;
  for (const char* name : names) copy(grads.at(i++), b.tensor(name));
}

// ---- bias_add. One addition, one rounding; dbias adds R rows: in order within at most 64 chunks of at least 16 rows, then the chunks.

Problem bias_added(DType dtype, DType bias, Shape shape, Layout layout, Fill fill = normal()) {
  const int64_t C = shape.back(), R = shape.numel() / std::max<int64_t>(C, 1);
  Problem p;
  p.input("x", dtype, shape, fill, layout).input("bias", bias, {C}, normal()).input("dy", dtype, shape, normal(), layout);
  p.output("y", dtype, shape).output("dx", dtype, shape).output("dbias", DType::f32, {C});
  p.run = [=](Stream&, const Bound& b) {
    const Tensor y = bias_add(leaf(b, "x"), leaf(b, "bias"));
    copy(y.detach(), b.tensor("y"));
    back(y, b, {"dx", "dbias"});
  };
  p.reference = [=](Truth& t) {
    std::vector<double> scale(size_t(C), 0);
    std::vector<double>& dbias = t["dbias"].v;
    for (int64_t i = 0; i < R * C; ++i) {
      const double y = t["x"][i] + t["bias"][i % C], dy = t["dy"][i];
      t["y"].expect(i, y, y, 1);
      t["dx"].expect(i, dy, 0, 0);
      dbias[size_t(i % C)] += dy;
      scale[size_t(i % C)] += std::abs(dy);
    }
    for (int64_t c = 0; c < C; ++c) t["dbias"].expect(c, dbias[size_t(c)], scale[size_t(c)], double(R) / 64 + 16 + 64);
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < R * C; ++i) loss += t["dy"][i] * (t["x"][i] + t["bias"][i % C]);
    return loss;
  };
  p.derivatives = {{"x", "dx"}, {"bias", "dbias"}};
  return p;
}

void add_bias_add(Registry& registry, const std::string& op) {
  struct Types {
    DType x, bias;
  };
  for (Types types : {Types{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}, {DType::f32, DType::bf16}}) {
    const auto add = [&](Shape s, const char* suffix, Layout layout) {
      registry.add(
          {op, "bias_add", types.x, join(s, "/", types.bias, "_bias", suffix), [=] { return bias_added(types.x, types.bias, s, layout); }});
    };
    for (Shape s : {Shape{1}, Shape{3, 17}, Shape{131, 33}, Shape{257, 64}, Shape{2, 3, 65}, Shape{0, 8}, Shape{4, 0}, Shape{2, 33000}})
      add(s, "", Layout::contiguous);
    for (Shape s : {Shape{7, 63}, Shape{7, 1}}) add(s, "/padded", Layout::padded_rows);
    registry.add({op, "bias_add", types.x, join("3x17/", types.bias, "_bias/nan"), [=] {
                    Problem p = bias_added(types.x, types.bias, {3, 17}, Layout::contiguous, sprinkle(normal(), 5, 2, NAN));
                    p.loss = {};
                    return p;
                  }});
  }
  const auto rejects = [&](const char* name, std::function<void(Device&)> attempt) { registry.rejects(op, name, std::move(attempt)); };
  rejects("bias_length", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {7})); });
  rejects("bias_rank", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {1, 8})); });
  rejects("bias_of_one", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {1})); });
  rejects("bias_undefined", [](Device& d) { bias_add(zeros(d, {2, 8}), Tensor()); });
  rejects("bias_for_a_scalar", [](Device& d) { bias_add(zeros(d, {}), zeros(d, {1})); });
  rejects("bias_for_integers", [](Device& d) { bias_add(zeros(d, {2, 8}, DType::i32), zeros(d, {8})); });
}

// ---- add and add_assign. One addition, one rounding.

Problem assigned(DType dst, DType src, Shape shape, Layout layout, Fill fill = normal()) {
  Problem p;
  p.in_place("dst", dst, shape, normal(), layout).input("src", src, shape, fill, layout);
  p.run = [=](Stream&, const Bound& b) { add_assign(b.tensor("dst"), b.tensor("src")); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["src"].size(); ++i) {
      const double sum = t["dst"][i] + t["src"][i];
      t[result("dst")].expect(i, sum, sum, 1);
    }
  };
  return p;
}

Problem added(DType a, DType b_type, Shape shape) {
  Problem p;
  p.input("a", a, shape, normal(), Layout::padded_rows).input("b", b_type, shape, normal()).input("dy", a, shape, normal());
  p.output("y", a, shape).output("da", a, shape).output("db", b_type, shape);
  p.run = [=](Stream&, const Bound& b) {
    const Tensor y = add(leaf(b, "a"), leaf(b, "b"));
    copy(y.detach(), b.tensor("y"));
    back(y, b, {"da", "db"});
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

void add_sums(Registry& registry, const std::string& op) {
  for (DType dst : kTypes)
    for (DType src : kTypes) {
      const auto add = [&](Shape s, const char* suffix, Layout layout, Fill fill = normal()) {
        registry.add({op, "add_assign", dst, join(s, "/", src, suffix), [=] { return assigned(dst, src, s, layout, fill); }});
      };
      for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{3, 257}, Shape{4, 0}, Shape{2, 40000}, Shape{2, 3, 64}})
        add(s, "", Layout::contiguous);
      for (Shape s : {Shape{7, 65}, Shape{7, 1}}) add(s, "/padded", Layout::padded_rows);
      add({3, 17}, "/nan", Layout::contiguous, sprinkle(normal(), 5, 2, NAN));
      add({3, 17}, "/infinity", Layout::contiguous, sprinkle(normal(), 5, 2, INFINITY));
      registry.add({op, "add", dst, join("5x19/", src), [=] { return added(dst, src, {5, 19}); }});
    }
  const auto rejects = [&](const char* name, std::function<void(Device&)> attempt) { registry.rejects(op, name, std::move(attempt)); };
  rejects("assign_shape", [](Device& d) { add_assign(zeros(d, {2, 8}), zeros(d, {8})); });
  rejects("assign_integers", [](Device& d) { add_assign(zeros(d, {8}, DType::i32), zeros(d, {8}, DType::i32)); });
  rejects("assign_undefined", [](Device& d) { add_assign(zeros(d, {8}), Tensor()); });
  rejects("assign_to_undefined", [](Device& d) { add_assign(Tensor(), zeros(d, {8})); });
  rejects("assign_gradient_wanted", [](Device& d) { add_assign(zeros(d, {8}), zeros(d, {8}).set_requires_grad()); });
  rejects("assign_to_transposed", [](Device& d) { add_assign(zeros(d, {8, 2}).permute({1, 0}), zeros(d, {2, 8})); });
  rejects("sum_of_shapes", [](Device& d) { add(zeros(d, {2, 8}), zeros(d, {8})); });
  rejects("sum_of_undefined", [](Device& d) { add(zeros(d, {2, 8}), Tensor()); });
}

// ---- scale. The product of the factors rounds once, the product with x once more.

Problem scaled(DType dtype, Shape shape, bool factor, Layout layout, Shape factor_shape = {}, Fill fill = normal()) {
  constexpr float kBy = 0.37f;
  Problem p;
  p.input("x", dtype, shape, fill, layout).input("dy", dtype, shape, normal(), layout);
  p.output("y", dtype, shape).output("dx", dtype, shape);
  if (factor) p.input("factor", DType::f32, factor_shape, uniform(0.5, 2));
  p.run = [=](Stream&, const Bound& b) {
    const Tensor y = scale(leaf(b, "x"), kBy, factor ? b.tensor("factor") : Tensor());
    copy(y.detach(), b.tensor("y"));
    const std::vector<bool> wanted = factor ? std::vector<bool>{true, false} : std::vector<bool>{true};
    copy(y.node()->backward({{b.tensor("dy")}, wanted}).at(0), b.tensor("dx"));
  };
  const auto by = [=](const Truth& t) { return kBy * (factor ? t["factor"][0] : 1); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double y = t["x"][i] * by(t), dx = t["dy"][i] * by(t);
      t["y"].expect(i, y, y, 2);
      t["dx"].expect(i, dx, dx, 2);
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < t["x"].size(); ++i) loss += t["dy"][i] * t["x"][i] * by(t);
    return loss;
  };
  p.derivatives = {{"x", "dx"}};
  return p;
}

void add_scale(Registry& registry, const std::string& op) {
  for (DType dtype : kTypes) {
    for (Shape s : {Shape{}, Shape{1}, Shape{15}, Shape{16}, Shape{3, 257}, Shape{0, 4}, Shape{2, 40000}, Shape{5, 1}})
      for (bool factor : {false, true})
        registry.add({op, "scale", dtype, join(s, factor ? "/factor" : ""), [=] { return scaled(dtype, s, factor, Layout::contiguous); }});
    for (Shape s : {Shape{7, 65}, Shape{7, 1}})
      registry.add({op, "scale", dtype, join(s, "/factor/padded"), [=] { return scaled(dtype, s, true, Layout::padded_rows); }});
    // One element of any rank is a scalar.
    registry.add({op, "scale", dtype, "7/factor_1x1", [=] { return scaled(dtype, {7}, true, Layout::contiguous, {1, 1}); }});
    for (double special : {double(NAN), -double(INFINITY)})
      registry.add({op, "scale", dtype, join("3x17/special/", special), [=] {
                      Problem p = scaled(dtype, {3, 17}, false, Layout::contiguous, {}, sprinkle(normal(), 5, 2, special));
                      p.loss = {};
                      return p;
                    }});
  }
  const auto rejects = [&](const char* name, std::function<void(Device&)> attempt) { registry.rejects(op, name, std::move(attempt)); };
  rejects("scale_integers", [](Device& d) { scale(Tensor::empty(d, {8}, DType::i32), 2); });
  rejects("scale_undefined", [](Device&) { scale(Tensor(), 2); });
  rejects("factor_size", [](Device& d) { scale(zeros(d, {2}), 2, zeros(d, {2})); });
  rejects("factor_dtype", [](Device& d) { scale(zeros(d, {8}), 2, zeros(d, {}, DType::bf16)); });
  rejects("factor_gradient", [](Device& d) { scale(zeros(d, {8}), 2, zeros(d, {}).set_requires_grad()); });
}

// ---- activation

Problem activated(Activation kind, DType dtype, Shape shape, Layout layout, Fill fill = normal(3)) {
  Problem p;
  p.input("x", dtype, shape, fill, layout).input("dy", dtype, shape, normal(), layout);
  p.output("y", dtype, shape).output("dx", dtype, shape);
  p.run = [=](Stream&, const Bound& b) {
    const Tensor y = activation(leaf(b, "x"), kind);
    copy(y.detach(), b.tensor("y"));
    back(y, b, {"dx"});
  };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const ActivationTruth v = activation_truth(kind, t["x"][i]);
      const double dy = t["dy"][i], dx = dy * v.slope;
      t["y"].expect_within(i, v.y, v.y_error);
      // dy times the slope is one more rounding.
      t["dx"].expect_within(i, dx, std::abs(dy) * v.slope_error + std::abs(dx) * unit_roundoff(DType::f32));
      t["y"].allow_flush(i, v.y_flush);
      t["dx"].allow_flush(i, std::abs(dy) * v.slope_flush);
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < t["x"].size(); ++i) loss += t["dy"][i] * activation_truth(kind, t["x"][i]).y;
    return loss;
  };
  p.derivatives = {{"x", "dx"}};
  return p;
}

// Arguments at which exponentials overflow or vanish and clamps begin; zero and NaN.
std::vector<double> extremes() {
  std::vector<double> values = {0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 3e38, -3e38, double(INFINITY), -double(INFINITY), double(NAN)};
  for (double v : {5.0, 9.5, 10.2, 10.8, 11.5, 15.9, 16.1, 40.0, 87.0, 88.9, 95.0, 103.5, 104.5, 127.0, 129.0}) {
    values.push_back(v);
    values.push_back(-v);
  }
  return values;
}

// The golden values were rounded to f32, and were made in float64 from x/2 (1 + tanh), which cancels for negative x: 1 + tanh
// and 1 - tanh^2 = (1 - tanh)(1 + tanh) are off by a unit of 2^-52 each, times x/2, and times |dy| and x t'/4.
Problem golden_gelu(const GoldenCase& g) {
  Problem p = activated(Activation::gelu_tanh, DType::f32, {g.integer("n")}, Layout::contiguous);
  p.reference = [reference = p.reference](Truth& t) {
    reference(t);
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double v = t["x"][i], slope = logistic_argument(Activation::gelu_tanh, v).slope, u = unit_roundoff(DType::f32);
      t["y"].bound[size_t(i)] += u * std::abs(t["y"][i]) + 0x1p-52 * std::abs(v);
      t["dx"].bound[size_t(i)] += u * std::abs(t["dx"][i]) + 0x1p-52 * std::abs(t["dy"][i]) * (1 + std::abs(v * slope));
    }
  };
  p.given("x", g.values("x")).given("dy", g.values("dy"));
  return p.golden("y", g.values("y")).golden("dx", g.values("dx"));
}

void add_activation(Registry& registry, const std::string& op) {
  for (Activation kind : {Activation::none, Activation::relu, Activation::silu, Activation::gelu_tanh})
    for (DType dtype : kTypes) {
      const auto add = [&](const std::string& name, std::function<Problem()> make) {
        registry.add({op, "activation", dtype, join(kind, "/", name), std::move(make)});
      };
      for (Shape s : {Shape{1}, Shape{3, 257}, Shape{131, 16}, Shape{300, 257}, Shape{2, 3, 5, 17}, Shape{0, 8}, Shape{}})
        add(join(s), [=] { return activated(kind, dtype, s, Layout::contiguous); });
      add("7x65/padded", [=] { return activated(kind, dtype, {7, 65}, Layout::padded_rows); });
      add("3x67/extremes", [=] {  // finite differences cannot cross a step, an infinity or a NaN
        Problem p = activated(kind, dtype, {3, 67}, Layout::contiguous, listed(extremes()));
        p.loss = {};
        return p;
      });
    }
  registry.golden({op, "golden_activation", "gelu_tanh.safetensors", golden_gelu});
  const auto rejects = [&](const char* name, std::function<void(Device&)> attempt) { registry.rejects(op, name, std::move(attempt)); };
  rejects("activation_undefined", [](Device&) { activation(Tensor(), Activation::relu); });
  rejects("activation_integers", [](Device& d) { activation(Tensor::empty(d, {2, 8}, DType::i32), Activation::relu); });
  rejects("activation_unknown", [](Device& d) { activation(Tensor::empty(d, {2, 8}), Activation(9)); });
  rejects("activation_gradient_shape", [](Device& d) { activation_backward(zeros(d, {2, 8}), zeros(d, {8}), Activation::silu); });
}

}  // namespace

void add_functions(Registry& registry, const std::string& op) {
  add_bias_add(registry, op);
  add_sums(registry, op);
  add_scale(registry, op);
  add_activation(registry, op);
}

}  // namespace weft::spec
