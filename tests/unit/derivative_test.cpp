#include "weft/expr/derivative.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/unit/random_expression.h"
#include "weft/expr/evaluate.h"
#include "weft/expr/simplify.h"
#include "weft/expr/trace.h"

namespace weft::expr {
namespace {

using Point = std::vector<double>;

// The side of every kink and step of the graph that a point is on. Finite differences are meaningful only if all their points are on the
// same sides.
std::vector<int> sides(const Graph& f, const Point& x, const Point& p) {
  Graph all = f;
  all.outputs.clear();
  for (int i = 0; i < f.size(); ++i) all.outputs.push_back(i);
  const std::vector<double> value = evaluate(all, x, p);
  std::vector<int> found;
  for (int i = 0; i < f.size(); ++i) {
    const Node& n = f[i];
    const auto of = [&](int node) { return value[size_t(node)]; };
    if (n.op == Op::abs) found.push_back(of(n.a) < 0);
    if (n.op == Op::min || n.op == Op::max) found.push_back(of(n.a) < of(n.b));
    if (n.op == Op::floor || n.op == Op::round) found.push_back(int(value[size_t(i)]));
    if (n.op == Op::less || n.op == Op::less_equal || n.op == Op::equal) found.push_back(value[size_t(i)] != 0);
  }
  return found;
}

// sum_j dy_j f_j at x.
double weighted(const Graph& f, const Point& x, const Point& p, const Point& dy) {
  const std::vector<double> y = evaluate(f, x, p);
  double sum = 0;
  for (size_t j = 0; j < y.size(); ++j) sum += dy[j] * y[j];
  return sum;
}

// Central differences at h and h/2, extrapolated: error about h^4 and 1e-16 / h. NaN if a kink is too near.
double slope(const Graph& f, const Point& x, const Point& p, const Point& dy, size_t i) {
  const std::vector<int> here = sides(f, x, p);
  bool smooth = true;
  const auto central = [&](double h) {
    Point low = x, high = x;
    low[i] -= h, high[i] += h;
    smooth = smooth && sides(f, low, p) == here && sides(f, high, p) == here;
    return (weighted(f, high, p, dy) - weighted(f, low, p, dy)) / (2 * h);
  };
  const double coarse = central(2e-3), fine = central(1e-3);
  return smooth ? (4 * fine - coarse) / 3 : std::nan("");
}

// Compares every dx_i with finite differences; false if a kink was too near.
// The bound: h^4 = 1e-12 times a fifth derivative that may reach 1e6; constants of the rules (ln 2) are f32, 6e-8.
bool agrees(const Graph& f, const Point& x, const Point& p, const Point& dy) {
  const Graph back = derivative(f, std::vector<bool>(size_t(f.inputs), true));
  Point in = x;
  in.insert(in.end(), dy.begin(), dy.end());
  const std::vector<double> dx = evaluate(back, in, p);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = slope(f, x, p, dy, i);
    if (std::isnan(expected)) return false;
    EXPECT_NEAR(dx[i], expected, 2e-6 * (1 + std::fabs(expected))) << "d input " << i;
  }
  return true;
}

struct Primitive {
  const char* name;
  Graph graph;
  std::vector<Point> points;
};

#define UNARY(f, ...)                                       \
  Primitive {                                               \
    #f, trace([](Expr x) { return f(x); }), { __VA_ARGS__ } \
  }
#define BINARY(f, ...)                                                 \
  Primitive {                                                          \
    #f, trace([](Expr x, Expr y) { return f(x, y); }), { __VA_ARGS__ } \
  }

TEST(Derivative, every_primitive_against_finite_differences) {
  using P = Point;
  const std::vector<Primitive> primitives = {
      UNARY(-, P{0.7}),
      UNARY(abs, P{0.7}, P{-0.7}),
      UNARY(exp, P{0.7}, P{-3}),
      UNARY(exp2, P{0.7}, P{-3}),
      UNARY(log, P{0.7}, P{4}),
      UNARY(log2, P{0.7}, P{4}),
      UNARY(log1p, P{0.7}, P{-0.5}),
      UNARY(sqrt, P{0.7}, P{4}),
      UNARY(rsqrt, P{0.7}, P{4}),
      UNARY(reciprocal, P{0.7}, P{-4}),
      UNARY(sin, P{0.7}, P{-4}),
      UNARY(cos, P{0.7}, P{-4}),
      UNARY(tan, P{0.7}, P{-1.2}),
      UNARY(tanh, P{0.7}, P{-2}, P{0}),
      UNARY(sigmoid, P{0.7}, P{-2}, P{0}),
      UNARY(erf, P{0.7}, P{-2}, P{0}),
      UNARY(floor, P{0.7}, P{-2.5}),
      UNARY(round, P{0.7}, P{-2.2}),
      UNARY(relu, P{0.7}, P{-0.7}),
      UNARY(silu, P{0.7}, P{-3}, P{0}),
      UNARY(softplus, P{0.7}, P{-3}),
      UNARY(gelu_tanh, P{0.7}, P{-3}, P{0}),
      UNARY(gelu_erf, P{0.7}, P{-3}, P{0}),
      BINARY(operator+, P{0.7, 2}),
      BINARY(operator-, P{0.7, 2}),
      BINARY(operator*, P{0.7, -2}),
      BINARY(operator/, P{0.7, -2}),
      BINARY(min, P{0.7, -2}, P{-2, 0.7}),
      BINARY(max, P{0.7, -2}, P{-2, 0.7}),
      BINARY(pow, P{0.7, -2}, P{1.3, 2.5}),
      BINARY(atan2, P{0.7, -2}, P{-0.7, 2}),
      BINARY(operator<, P{0.7, -2}, P{-2, 0.7}),
      BINARY(operator<=, P{0.7, -2}, P{-2, 0.7}),
      BINARY(operator==, P{0.7, -2}),
      {"fma", trace([](Expr x, Expr y, Expr z) { return fma(x, y, z); }), {P{0.7, -2, 3}}},
      {"select", trace([](Expr x, Expr y, Expr z) { return select(x < 1.0f, y * y, z * z); }), {P{0.7, -2, 3}, P{1.7, -2, 3}}},
      {"clamp", trace([](Expr x) { return clamp(x, -1, 1); }), {P{0.7}, P{1.7}, P{-1.7}}},
      {"pow by a constant",
       trace([](Expr x) { return pow(x, 2.0f) + pow(x, 3.0f) + pow(x, -1.0f) + pow(abs(x), 1.5f); }),
       {P{0.7}, P{-0.7}}},
  };
  std::array<bool, kOps> seen{};
  for (const Primitive& primitive : primitives) {
    SCOPED_TRACE(primitive.name);
    for (int i = 0; i < primitive.graph.size(); ++i) seen[size_t(primitive.graph[i].op)] = true;
    for (const Point& x : primitive.points) {
      EXPECT_TRUE(agrees(primitive.graph, x, {}, {1.5}));
      EXPECT_TRUE(agrees(simplify(primitive.graph), x, {}, {1.5}));
    }
  }
  for (int op = int(Op::neg); op < kOps; ++op) EXPECT_TRUE(seen[size_t(op)]) << name(Op(op)) << " is not tested";
}

TEST(Derivative, two_hundred_random_expressions_against_finite_differences) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomExpression random(seed);
    const Graph f = trace([&](Expr x, Expr y, Expr z, Param p) {
      const std::vector<Expr> leaves = {x, y, z, p};
      return std::tuple(random.tree(leaves, 5), random.tree(leaves, 4));
    });
    // A kink may be near one point, but hardly near all of many.
    bool told = false;
    for (int attempt = 0; attempt < 50 && !told; ++attempt) {
      Point x, p = {random.number()}, dy = {random.number(), random.number()};
      for (int i = 0; i < 3; ++i) x.push_back(random.number());
      told = agrees(f, x, p, dy);
    }
    compared += told;
  }
  EXPECT_EQ(compared, 200);
}

TEST(Derivative, second_derivatives_come_from_the_same_rules) {
  const Graph f = trace([](Expr x) { return silu(x) * x; });
  const Graph once = derivative(f, {true});  // (x, dy) -> dx
  EXPECT_TRUE(agrees(once, {0.7, 1.0}, {}, {1.0}));
}

// Conventions at kinks, where differences are meaningless.
TEST(Derivative, conventions_at_kinks) {
  const auto at = [](const Graph& f, std::vector<float> x) {
    x.push_back(1);
    return evaluate_f32(derivative(f, std::vector<bool>(size_t(f.inputs), true)), x);
  };
  using V = std::vector<float>;
  EXPECT_EQ(at(trace([](Expr x) { return abs(x); }), {0}), V{0});
  EXPECT_EQ(at(trace([](Expr x) { return relu(x); }), {0}), V{0});
  EXPECT_EQ(at(trace([](Expr x) { return clamp(x, -1, 1); }), {1}), V{1});
  EXPECT_EQ(at(trace([](Expr x) { return clamp(x, -1, 1); }), {-1}), V{1});
  EXPECT_EQ(at(trace([](Expr x) { return softplus(x); }), {0}), V{0.5f});
  EXPECT_EQ(at(trace([](Expr x, Expr y) { return max(x, y); }), {2, 2}), V({0.5f, 0.5f}));
  EXPECT_EQ(at(trace([](Expr x, Expr y) { return min(x, y); }), {2, 2}), V({0.5f, 0.5f}));
  EXPECT_EQ(at(trace([](Expr x, Expr y) { return pow(x, y); }), {0, 2}), V({0, 0}));
  EXPECT_EQ(at(trace([](Expr x) { return floor(x) + round(x) + (x < 1.0f); }), {0.3f}), V{0});
  // The branch not taken has no effect, even if its derivative is NaN or infinite.
  EXPECT_EQ(at(trace([](Expr x) { return select(x > 0.0f, log(2.0f * sqrt(x)), x); }), {0}), V{1});
  EXPECT_EQ(at(trace([](Expr x) { return select(x > 0.0f, sqrt(x), 0.0f); }), {-1}), V{0});
  EXPECT_EQ(at(trace([](Expr x) { return select(x > 0.0f, sqrt(x) * (1.0f + sqrt(x)), x); }), {0}), V{1});
}

TEST(Derivative, only_wanted_inputs_and_given_outputs) {
  const Graph f = trace([](Expr x, Expr y) { return std::tuple(x * y, exp(y)); });
  const Graph dx = derivative(f, {true, false});
  EXPECT_EQ(dx.inputs, 4);
  EXPECT_EQ(dx.outputs.size(), 1u);
  EXPECT_EQ(inputs_used(dx), std::vector<bool>({false, true, true, false}));  // dx = dy_0 * y
  const Graph dy = derivative(f, {false, true}, {false, true});
  EXPECT_EQ(inputs_used(dy), std::vector<bool>({false, true, false, true}));  // dy = dy_1 * exp(y)
  const Graph none = derivative(f, {true, false}, {false, true});
  EXPECT_EQ(evaluate(none, std::array{1.0, 2.0, 3.0, 4.0}), std::vector<double>{0});
  EXPECT_THROW(derivative(f, {true}), Error);
  EXPECT_THROW(derivative(f, {true, true}, {true}), Error);
}

// The gate of a SwiGLU: silu(g) u needs one sigmoid for both gradients.
TEST(Derivative, subexpressions_are_shared) {
  const Graph back = derivative(trace([](Expr g, Expr u) { return silu(g) * u; }), {true, true});
  int sigmoids = 0;
  for (int i = 0; i < back.size(); ++i) sigmoids += back[i].op == Op::sigmoid;
  EXPECT_EQ(sigmoids, 1);
  EXPECT_LE(back.size(), 13);
}

}  // namespace
}  // namespace weft::expr
