#include <cmath>

#include "weft/ops/activation/activation.h"
#include "weft/ops/activation/spec.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t rows, columns;
};

constexpr Activation kKinds[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu_tanh};

// What goes into the logistic function: t(x), its slope, and by how many roundings the kernel's t errs.
struct Argument {
  double t, slope, roundings, slope_roundings;
};
Argument argument(Activation kind, double x) {
  if (kind == Activation::silu) return {x, 1, 0, 0};
  const double k = 2 * std::sqrt(2 / std::acos(-1.0)), c = 0.044715;
  // x^2, two rounded constants, an fma and a product; in the slope one more constant's product.
  return {k * (x + c * x * x * x), k * (1 + 3 * c * x * x), 4, 5};
}

// e^-|t| errs by three roundings (its argument reduction, polynomial and final sum); then a sum, a quotient and a
// product make s, and likewise 1 - s.
constexpr double kLogistic = 3 + 3;

}  // namespace

// With t off by d |t| u, s is off by s (1 - s) d |t| u and 1 - s by as much. Below the smallest normal number e^-|t| and
// s each err by half of 2^-149. The 1.01 stands for products of errors: 4 |t| u is below 0.0001 wherever s is not 0 or 1.
ActivationTruth activation_truth(Activation kind, double x) {
  const double u = 1.01 * unit_roundoff(DType::f32), tiny = 0x1p-149;
  if (kind == Activation::none) return {x, 1, 0, 0};
  if (kind == Activation::relu) return {std::isnan(x) || x > 0 ? x : 0, std::isnan(x) ? x : double(x > 0), 0, 0};
  const Argument a = argument(kind, x);
  const double s = 1 / (1 + std::exp(-a.t)), rest = 1 / (1 + std::exp(a.t));
  ActivationTruth v;
  v.y = x * s;
  v.y_error = std::abs(v.y) * u * (kLogistic + a.roundings * std::abs(a.t) * rest + 1) + std::abs(x) * tiny;
  if (std::abs(x) > 150) {  // the limits, which the equation loses in infinity times 0
    v.slope = x > 0;
    v.slope_error = 0;
    return v;
  }
  // slope = s (1 + m), m = x t' (1 - s): the errors of s on all of it, those of m on its part.
  const double m = x * a.slope * rest, scale = 1 + std::abs(m);
  v.slope = s * (1 + m);
  v.slope_error = s * u * (scale * (kLogistic + a.roundings * std::abs(a.t) * rest + 2) +
                           std::abs(m) * (kLogistic + a.roundings * std::abs(a.t) * s + a.slope_roundings)) + scale * tiny;
  return v;
}

namespace {

Problem forward(Activation kind, DType dtype, Shape shape, Layout layout, Fill fill = normal(3)) {
  Problem p;
  p.input("x", dtype, shape, fill, layout).output("y", dtype, shape, layout);
  const auto args = [=](const Bound& b) { return ActivationArgs{.x = b.view("x"), .y = b.mut("y"), .kind = kind}; };
  p.run = [=](Stream& stream, const Bound& b) { activation(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const ActivationTruth v = activation_truth(kind, t["x"][i]);
      t["y"].expect_within(i, v.y, v.y_error);
    }
  };
  return p;
}

Problem backward(Activation kind, DType dtype, Shape shape, Layout layout, Fill fill = normal(3)) {
  Problem p;
  p.input("x", dtype, shape, fill, layout).input("dy", dtype, shape, normal(), layout).output("dx", dtype, shape, layout);
  const auto args = [=](const Bound& b) {
    return ActivationBackwardArgs{.x = b.view("x"), .dy = b.view("dy"), .dx = b.mut("dx"), .kind = kind};
  };
  p.run = [=](Stream& stream, const Bound& b) { activation_backward(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const ActivationTruth v = activation_truth(kind, t["x"][i]);
      const double dy = t["dy"][i], dx = dy * v.slope;
      // dy times the slope is one more rounding.
      t["dx"].expect_within(i, dx, std::abs(dy) * v.slope_error + std::abs(dx) * unit_roundoff(DType::f32));
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

// Where exponentials overflow or vanish, the clamps begin, and zero.
std::vector<double> extremes() {
  std::vector<double> values = {0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 3e38, -3e38};
  for (double x : {5.0, 9.5, 10.2, 10.8, 11.5, 15.9, 16.1, 40.0, 87.0, 88.9, 95.0, 103.5, 104.5, 127.0, 129.0}) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

// The golden values were rounded to f32, and were made in float64 from x/2 (1 + tanh), which cancels for negative x: 1 + tanh
// and 1 - tanh^2 = (1 - tanh)(1 + tanh) are off by a unit of 2^-52 each, times x/2, and times |dy| and x t'/4.
std::function<void(Truth&)> with_golden_errors(std::function<void(Truth&)> reference, const char* output) {
  return [=](Truth& t) {
    reference(t);
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double x = t["x"][i], slope = argument(Activation::gelu_tanh, x).slope, dy = t.has("dy") ? t["dy"][i] : 0;
      const double cancelled = t.has("dy") ? std::abs(dy) * (1 + std::abs(x * slope)) : std::abs(x);
      t[output].bound[size_t(i)] += unit_roundoff(DType::f32) * std::abs(t[output][i]) + 0x1p-52 * cancelled;
    }
  };
}

}  // namespace

void add_specs_activation(Registry& registry) {
  const std::string op = "activation";
  for (Activation kind : kKinds)
    for (DType dtype : {DType::f32, DType::bf16}) {
      const std::string k = name(kind), back = k + "_backward";
      for (Size s : {Size{1, 1}, {4, 7}, {3, 257}, {131, 16}, {2, 4099}, {300, 257}, {0, 8}, {5, 0}})
        for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
          if (s.columns == 0 && layout == Layout::padded_rows) continue;  // rows of nothing have nothing between them
          const std::string name = dims({s.rows, s.columns}) + (layout == Layout::padded_rows ? "/padded" : "");
          registry.add({op, k, dtype, name, [=] { return forward(kind, dtype, {s.rows, s.columns}, layout); }});
          registry.add({op, back, dtype, name, [=] { return backward(kind, dtype, {s.rows, s.columns}, layout); }});
        }
      const Shape s{3, 67};
      const Layout plain = Layout::contiguous;
      registry.add({op, k, dtype, "rank_4", [=] { return forward(kind, dtype, {2, 3, 5, 17}, plain); }});
      registry.add({op, k, dtype, "extremes", [=] { return forward(kind, dtype, s, plain, listed(extremes())); }});
      registry.add({op, k, dtype, "nan", [=] { return forward(kind, dtype, s, plain, sprinkle(normal(), 7, 3, NAN)); }});
      registry.add({op, k, dtype, "infinity", [=] { return forward(kind, dtype, s, plain, sprinkle(normal(), 7, 3, INFINITY)); }});
      registry.add({op, k, dtype, "minus_infinity", [=] { return forward(kind, dtype, s, plain, sprinkle(normal(), 7, 3, -INFINITY)); }});
      for (Problem (*make)(Activation, DType, Shape, Layout, Fill) : {forward, backward}) {
        const std::string variant = make == forward ? k : back;
        registry.bench({op, variant, dtype, dims({2048, 3072}), [=] { return make(kind, dtype, {2048, 3072}, plain, normal()); }});
      }
    }
  // Not among the cases above, as finite differences cannot cross a step, an infinity or a NaN.
  std::vector<double> values = extremes();
  for (double special : {double(INFINITY), -double(INFINITY), double(NAN)}) values.push_back(special);
  for (DType dtype : {DType::f32, DType::bf16})
    for (Activation kind : kKinds)
      registry.add({op, std::string(name(kind)) + "_backward", dtype, "extremes", [=] {
        Problem p = backward(kind, dtype, {3, 67}, Layout::contiguous, listed(values));
        p.loss = {};
        return p;
      }});

  registry.golden({op, "golden_gelu_tanh", "gelu_tanh.safetensors", [=](const GoldenCase& g) {
    Problem p = forward(Activation::gelu_tanh, DType::f32, {g.integer("n")}, Layout::contiguous);
    p.reference = with_golden_errors(p.reference, "y");
    return p.given("x", g.values("x")).golden("y", g.values("y"));
  }});
  registry.golden({op, "golden_gelu_tanh_backward", "gelu_tanh.safetensors", [=](const GoldenCase& g) {
    Problem p = backward(Activation::gelu_tanh, DType::f32, {g.integer("n")}, Layout::contiguous);
    p.reference = with_golden_errors(p.reference, "dx");
    return p.given("x", g.values("x")).given("dy", g.values("dy")).golden("dx", g.values("dx"));
  }});

  registry.rejects(op, "undefined_input", [](Device&) { activation(Tensor(), Activation::relu); });
  registry.rejects(op, "integer_input", [](Device& d) { activation(Tensor::empty(d, {2, 8}, DType::i32), Activation::relu); });
  registry.rejects(op, "scalar_input", [](Device& d) { activation(Tensor::empty(d, {}), Activation::relu); });
  registry.rejects(op, "unknown_kind", [](Device& d) { activation(Tensor::empty(d, {2, 8}), Activation(9)); });
  registry.rejects(op, "transposed_rows", [](Device& d) { activation(Tensor::empty(d, {8, 2}).permute({1, 0}), Activation::silu); });
  registry.rejects(op, "gradient_shape", [](Device& d) { activation_backward(Tensor::empty(d, {2, 8}), Tensor::empty(d, {2, 7}), Activation::silu); });
  registry.rejects(op, "gradient_dtype", [](Device& d) {
    activation_backward(Tensor::empty(d, {2, 8}), Tensor::empty(d, {2, 8}, DType::bf16), Activation::silu);
  });
}

}  // namespace weft::spec
