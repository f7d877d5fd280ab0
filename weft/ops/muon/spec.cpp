#include "weft/ops/muon/muon.h"

#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

constexpr double u = 0x1p-24;

// A matrix in float64 and, element by element, how far f32 may be from it.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> v, e;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), v(size_t(r * c)), e(size_t(r * c)) {}
  size_t at(int64_t i, int64_t j) const { return size_t(i * columns + j); }
};

// alpha A B + beta C with the error of a matmul that adds K terms in f32: growth(K) u of their magnitudes, and one
// rounding each for the product with alpha or beta and for the sum.
Matrix product(double alpha, const Matrix& a, const Matrix& b, double beta, const Matrix& c) {
  Matrix out(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j) {
      double sum = 0, scale = 0, error = 0;
      for (int64_t k = 0; k < a.columns; ++k) {
        const size_t x = a.at(i, k), y = b.at(k, j);
        sum += a.v[x] * b.v[y];
        scale += std::abs(a.v[x] * b.v[y]);
        error += std::abs(a.v[x]) * b.e[y] + a.e[x] * std::abs(b.v[y]) + a.e[x] * b.e[y];
      }
      const size_t o = out.at(i, j);
      const double start = beta * c.v[o];
      out.v[o] = alpha * sum + start;
      // The chain may start at beta C, so its magnitude counts in every rounding.
      out.e[o] = std::abs(alpha) * error + std::abs(beta) * c.e[o] +
                 growth(double(a.columns) + 2) * u * (std::abs(alpha) * scale + std::abs(start)) + 2 * u * std::abs(start) +
                 u * std::abs(out.v[o]);
    }
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) t.v[t.at(j, i)] = a.v[a.at(i, j)], t.e[t.at(j, i)] = a.e[a.at(i, j)];
  return t;
}

struct Item {
  DType param, grad;
  int64_t R, C;
  float weight_decay, scale;
};
struct Setting {
  double momentum = 0.95, lr = 0.02, grad_scale = 1;
  int iterations = 5;
};

void expect_item(Truth& t, const Item& item, const std::string& i, const Setting& s) {
  const double mu = s.momentum;
  Matrix x(item.R, item.C);
  double squares = 0, spread = 0;
  for (int64_t k = 0; k < item.R * item.C; ++k) {
    const double g = t["grad" + i][k] * t["grad_scale"][0], fresh = (1 - mu) * g, old = mu * t["m" + i][k];
    const double m = old + fresh, em = 3 * u * std::abs(fresh) + u * std::abs(old) + u * std::abs(m);
    const double d = mu * m + fresh, ed = mu * em + u * std::abs(mu * m) + 3 * u * std::abs(fresh) + u * std::abs(d);
    t[result("m" + i)].expect_within(k, m, em);
    x.v[size_t(k)] = d, x.e[size_t(k)] = ed;
    squares += d * d;
    spread += 2 * std::abs(d) * ed + ed * ed;
  }
  // The norm: its terms' errors, a chain of additions (gradient_norm's bound), the root, the sum with 1e-7.
  const double norm = std::sqrt(squares), n = double(item.R * item.C), bottom = norm + 1e-7;
  const double relative = spread / (2 * squares) + u * ((1 + std::min(n, 65536.0) / 64 + 8 + std::ceil(n / 65536)) / 2 + 2);
  for (size_t k = 0; k < x.v.size(); ++k) {
    x.v[k] /= bottom;
    x.e[k] = x.e[k] / bottom + std::abs(x.v[k]) * (relative + u);
  }
  if (item.R > item.C) x = transposed(x);
  for (int step = 0; step < s.iterations; ++step) {
    const Matrix gram = product(1, x, transposed(x), 0, Matrix(x.rows, x.rows));
    const Matrix poly = product(2.0315, gram, gram, -4.7750, gram);
    x = product(1, poly, x, 3.4445, x);
  }
  if (item.R > item.C) x = transposed(x);
  const bool master = item.param == DType::bf16;
  const std::string name = (master ? "master" : "param") + i;
  for (int64_t k = 0; k < item.R * item.C; ++k) {
    const double p = t[name][k], lr = t["lr"][0], step = item.scale * x.v[size_t(k)] + item.weight_decay * p, after = p - lr * step;
    const double error = lr * (item.scale * (x.e[size_t(k)] + u * std::abs(x.v[size_t(k)])) + 2 * u * std::abs(step)) + u * std::abs(after);
    t[result(name)].expect_within(k, after, 1.01 * error);
    if (master) t["param" + i].expect_within(k, after, 1.01 * error);
  }
}

Problem step(std::vector<Item> items, Setting s, Fill grads = normal()) {
  Problem p;
  for (size_t i = 0; i < items.size(); ++i) {
    const Shape shape{items[i].R, items[i].C};
    const std::string n = std::to_string(i);
    items[i].param == DType::f32 ? p.in_place("param" + n, DType::f32, shape, normal())
                                 : p.output("param" + n, items[i].param, shape).in_place("master" + n, DType::f32, shape, normal());
    p.input("grad" + n, items[i].grad, shape, grads).in_place("m" + n, DType::f32, shape, normal(0.1));
  }
  p.input("lr", DType::f32, {}, constant(s.lr)).input("grad_scale", DType::f32, {}, constant(s.grad_scale));
  const auto args = [=](const Bound& b) {
    MuonArgs a{{}, b.view("lr"), b.view("grad_scale"), s.momentum, s.iterations};
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string n = std::to_string(i);
      a.tensors.push_back({b.mut("param" + n), b.view("grad" + n), b.mut("m" + n),
                           items[i].param == DType::bf16 ? b.mut("master" + n) : MutView{}, items[i].weight_decay, items[i].scale});
    }
    return a;
  };
  p.run = [=](Stream& stream, const Bound& b) { muon(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (size_t i = 0; i < items.size(); ++i) expect_item(t, items[i], std::to_string(i), s);
  };
  return p;
}

struct Attempt {
  Tensor param, grad, m, master, lr, scale;
  MuonArgs args;
};
void rejects(Registry& registry, const char* name, std::function<void(Attempt&, Device&)> spoil) {
  registry.rejects("muon", name, [=](Device& d) {
    const Shape s{4, 6};
    Attempt a{zeros(d, s), zeros(d, s), zeros(d, s), Tensor(), full(d, {}, 1e-3), full(d, {}, 1), {}};
    spoil(a, d);
    a.args.tensors = {{a.param.mut_view(), a.grad.view(), a.m.mut_view(), a.master.mut_view(), 0.1f, 1}};
    a.args.lr = a.lr.view(), a.args.grad_scale = a.scale.view();
    muon(d.stream(), a.args);
  });
}

}  // namespace

// Errors of one iteration are amplified by the next (the quintic's derivative at 0 is 3.4) and magnitudes stand in for
// signed sums, so the bound is tight for one or two iterations of any size and for five of small matrices.
void add_specs_muon(Registry& registry) {
  const std::string op = "muon";
  const DType f32 = DType::f32, bf16 = DType::bf16;
  for (DType param : {f32, bf16}) {
    for (DType grad : {f32, bf16}) {
      for (Shape s : {Shape{1, 1}, Shape{1, 7}, Shape{7, 1}, Shape{5, 3}, Shape{3, 5}, Shape{6, 6}})
        registry.add(
            {op, "five_iterations", param, join(s, "/", grad, "_grad"), [=] { return step({{param, grad, s[0], s[1], 0.1f, 1}}, {}); }});
      for (Shape s : {Shape{17, 65}, Shape{65, 17}, Shape{33, 33}})
        registry.add({op, "one_iteration", param, join(s, "/", grad, "_grad"),
                      [=] { return step({{param, grad, s[0], s[1], 0.1f, 1.3f}}, {.iterations = 1}); }});
    }
    registry.add({op, "no_iteration", param, "19x67",
                  [=] { return step({{param, f32, 19, 67, 0.1f, 0.5f}}, {.grad_scale = 0.37, .iterations = 0}); }});
    registry.add({op, "five_iterations", param, "three/clipped", [=] {
                    return step({{param, f32, 4, 6, 0.1f, 1}, {f32, bf16, 6, 4, 0, 2}, {bf16, f32, 2, 2, 0.3f, 0.5f}},
                                {.grad_scale = 0.37});
                  }});
    registry.add(
        {op, "five_iterations", param, "nan", [=] { return step({{param, f32, 4, 6, 0.1f, 1}}, {}, sprinkle(normal(), 9, 1, NAN)); }});
    registry.bench({op, "five_iterations", param, "1536x384", [=] { return step({{param, param, 1536, 384, 0.1f, 1}}, {}); }});
  }
  rejects(registry, "vector", [](Attempt& a, Device& d) { a.param = a.grad = a.m = zeros(d, {24}); });
  rejects(registry, "empty", [](Attempt& a, Device& d) { a.param = a.grad = a.m = zeros(d, {0, 4}); });
  rejects(registry, "grad_shape", [](Attempt& a, Device& d) { a.grad = zeros(d, {6, 4}); });
  rejects(registry, "momentum_missing", [](Attempt& a, Device&) { a.m = Tensor(); });
  rejects(registry, "momentum_of_one", [](Attempt& a, Device&) { a.args.momentum = 1; });
  rejects(registry, "negative_iterations", [](Attempt& a, Device&) { a.args.iterations = -1; });
  rejects(registry, "master_missing", [](Attempt& a, Device& d) { a.param = zeros(d, {4, 6}, DType::bf16); });
  rejects(registry, "lr_size", [](Attempt& a, Device& d) { a.lr = zeros(d, {2}); });
  rejects(registry, "scale_missing", [](Attempt& a, Device&) { a.scale = Tensor(); });
}

}  // namespace weft::spec
