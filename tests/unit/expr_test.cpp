#include "weft/expr/expr.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/random_expression.h"
#include "weft/expr/evaluate.h"
#include "weft/expr/simplify.h"
#include "weft/expr/trace.h"

namespace weft::expr {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min(), kHuge = std::numeric_limits<float>::max();
constexpr float kSpecial[] = {0.0f,   -0.0f, 1.0f,   -1.0f,          0.5f,  -2.0f,  3.7f, -0.3f, 1e-30f,
                              -1e30f, kTiny, -kTiny, 1.1754944e-38f, kHuge, -kHuge, kInf, -kInf, kNan};

int count(const Graph& graph, Op op) {
  int n = 0;
  for (int i = 0; i < graph.size(); ++i) n += graph[i].op == op;
  return n;
}

template <class F>
Graph simplified(F f) {
  return simplify(trace(f));
}

// Bitwise equality, including the sign of zero; any NaN equals any NaN.
bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

TEST(Trace, counts_inputs_parameters_outputs) {
  const Graph one = trace([](Expr w, Expr g, Param lr) { return w - lr * g; });
  EXPECT_EQ(one.inputs, 2);
  EXPECT_EQ(one.parameters, 1);
  EXPECT_EQ(one.outputs.size(), 1u);
  EXPECT_EQ(evaluate(one, std::array{1.0, 2.0}, std::array{0.5}), std::vector<double>{0});
  EXPECT_EQ(trace([](Expr x) { return std::tuple(x, x * x, 3.0f); }).outputs.size(), 3u);
  EXPECT_EQ(trace([](Expr x) { return std::array{x, x * x}; }).outputs.size(), 2u);
  EXPECT_EQ(trace(+[](Expr x) { return x; }).inputs, 1);
  using A = arity_t<decltype([](Expr, Expr, Param) { return std::pair(Expr(1), Expr(2)); })>;
  static_assert(A::inputs == 2 && A::parameters == 1 && A::outputs == 2);
}

TEST(Trace, equal_subexpressions_are_one_node) {
  const Graph g = trace([](Expr x, Expr y) { return exp(x * y) + exp(x * y); });
  EXPECT_EQ(g.size(), 5);  // x, y, x * y, exp, +
  const auto f = [](Expr x) { return silu(x) * 2; };
  EXPECT_EQ(trace(f), trace(f));
  EXPECT_EQ(trace(f).hash(), trace(f).hash());
  EXPECT_NE(trace(f), trace([](Expr x) { return silu(x) * 3; }));
  EXPECT_NE(trace(f).hash(), trace([](Expr x) { return silu(x) * 3; }).hash());
  EXPECT_NE(trace([](Expr x, Expr) { return x; }), trace([](Expr x) { return x; }));
}

TEST(Trace, constants_are_nodes_by_their_bits) {
  Graph g;
  const int zero = g.add({.op = Op::constant, .value = 0.0f});
  EXPECT_NE(zero, g.add({.op = Op::constant, .value = -0.0f}));
  EXPECT_EQ(g.add({.op = Op::constant, .value = kNan}), g.add({.op = Op::constant, .value = kNan}));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(g.add({.op = Op::constant, .value = float(i + 1)}), i + 3);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(g.add({.op = Op::constant, .value = float(i + 1)}), i + 3);
}

TEST(Trace, constants_fold_immediately) {
  const Expr x = 2.0f * Expr(3) + sqrt(Expr(16));
  EXPECT_TRUE(x.is_constant());
  EXPECT_EQ(x.value(), 10);
  EXPECT_EQ((Expr(2) < Expr(3)).value(), 1);
  EXPECT_EQ(select(Expr(kNan), Expr(1), Expr(2)).value(), 1);  // NaN is not 0
  EXPECT_EQ(round(Expr(2.5f)).value(), 2);
  EXPECT_EQ((Expr(0.1f) + Expr(0.2f)).value(), 0.1f + 0.2f);
  EXPECT_EQ(exp(Expr(1)).value(), 2.71828182845904524f);
}

TEST(Trace, rejects_misuse) {
  try {
    trace([](Param p) { return p * 2; });
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("at least one input, got 0 inputs and 1 parameters"), std::string::npos) << e.what();
  }
  Graph first, second;
  const Expr x(first, first.add({.op = Op::input})), y(second, second.add({.op = Op::input}));
  EXPECT_THROW(x + y, Error);
  EXPECT_THROW(evaluate(trace([](Expr a) { return a; }), std::array{1.0, 2.0}), Error);
}

TEST(Simplify, identities) {
  const auto is_input = [](const Graph& g) { return g.size() == 1 && g[g.outputs[0]].op == Op::input; };
  EXPECT_TRUE(is_input(simplified([](Expr x) { return x * 1.0f; })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return 1.0f * x / 1.0f; })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return x - 0.0f; })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return x + -0.0f; })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return -(-x); })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return pow(x, 1.0f); })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return max(min(x, x), -kInf); })));
  EXPECT_TRUE(is_input(simplified([](Expr x) { return select(Expr(2) > 1.0f, x, x * x); })));
  EXPECT_EQ(count(simplified([](Expr x) { return x / 4.0f; }), Op::div), 0);
  EXPECT_EQ(count(simplified([](Expr x) { return x / 3.0f; }), Op::div), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return x / kTiny; }), Op::div), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return 1.0f / sqrt(x); }), Op::rsqrt), 1);
  EXPECT_EQ(simplified([](Expr x) { return 1.0f / sqrt(x); }).size(), 2);
  EXPECT_EQ(simplified([](Expr x) { return 1.0f / rsqrt(x); }).size(), 2);
  EXPECT_EQ(simplified([](Expr x) { return pow(x, 2.0f); }).size(), 2);
  EXPECT_EQ(simplified([](Expr x, Expr y) { return select(x != y, x, y); }).size(), 4);
  EXPECT_EQ(simplified([](Expr x, Expr y) { return x + -y; }), simplified([](Expr x, Expr y) { return x - y; }));
}

TEST(Simplify, keeps_what_is_not_an_identity) {
  EXPECT_EQ(count(simplified([](Expr x) { return x * 0.0f; }), Op::mul), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return x + 0.0f; }), Op::add), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return x - x; }), Op::sub), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return x / x; }), Op::div), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return x == x; }), Op::equal), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return 0.0f - x; }), Op::sub), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return pow(x, 0.5f); }), Op::pow), 1);
  EXPECT_EQ(count(simplified([](Expr x) { return log(exp(x)); }), Op::log), 1);
}

// Every rewrite that is documented as exact, on every pair of special values, bit for bit.
TEST(Simplify, special_values_keep_their_meaning) {
  const std::vector<Graph> graphs = {
      trace([](Expr x, Expr) { return std::tuple(x * 1.0f, x * -1.0f, x * 0.0f, x / 1.0f, x / -1.0f, 1.0f * x); }),
      trace([](Expr x, Expr) { return std::tuple(x + 0.0f, x + -0.0f, x - 0.0f, x - -0.0f, 0.0f - x, -0.0f - x); }),
      trace([](Expr x, Expr) { return std::tuple(-(-x), -(x * 3.0f), -(x / 3.0f), -(3.0f / x), abs(-x), abs(abs(x))); }),
      trace([](Expr x, Expr y) { return std::tuple(x + -y, -x + y, x - -y, -x - y, -(x - y), x - 1.0f); }),
      trace([](Expr x, Expr y) { return std::tuple(-x * y, x * -y, -x * -y, -x / y, x / -y, -x / -y, -x * 3.0f, 3.0f * -x); }),
      trace([](Expr x, Expr) { return std::tuple(x / 4.0f, x / 0.125f, x / -2.0f, x / kTiny, x / kHuge, x / 0.0f, x / kInf); }),
      trace([](Expr x, Expr) { return std::tuple(1.0f / x, -1.0f / x, 1.0f / -x, 2.0f / x); }),
      trace([](Expr x, Expr y) { return std::tuple(x - x, x / x, x == x, x < x, x <= x, x != x, x + x, x * y - y); }),
      trace([](Expr x, Expr y) {
        return std::tuple(min(x, y), max(x, y), min(x, x), max(x, -kInf), min(x, kInf), max(x, kInf), min(x, 0.0f));
      }),
      trace(
          [](Expr x, Expr y) { return std::tuple(select(x, y, 2.0f), select(x < y, 1.0f, 0.0f), select(!x, y, x), select(x != y, x, y)); }),
      trace([](Expr x, Expr y) {
        return std::tuple(select(x, y, 0) + select(x, x, 0), select(x, 0, y) + select(x, 0, x), select(x, y, 0) + select(x, 0, y));
      }),
      trace([](Expr x, Expr y) { return std::tuple(x && y, x || y, !x, !(x < y), select(x && y, x, y)); }),
      trace(
          [](Expr x, Expr) { return std::tuple(pow(x, 0.0f), pow(x, 1.0f), pow(x, 2.0f), pow(x, -1.0f), pow(x, 0.5f), pow(Expr(1), x)); }),
      trace([](Expr x, Expr y) {
        return std::tuple(fma(x, 1.0f, y), fma(x, -1.0f, y), fma(x, y, -0.0f), fma(-x, -y, 1.0f), fma(-x, 3.0f, y));
      }),
      trace([](Expr x, Expr y) {
        return std::tuple(relu(x), clamp(x, -1, 1), clamp(x, y, 2), floor(floor(x)), round(floor(x)), floor(round(x)));
      }),
  };
  for (const Graph& graph : graphs) {
    const Graph after = simplify(graph);
    EXPECT_LE(after.size(), graph.size());
    for (float x : kSpecial)
      for (float y : kSpecial) {
        const std::vector<float> want = evaluate_f32(graph, std::array{x, y}), got = evaluate_f32(after, std::array{x, y});
        for (size_t i = 0; i < want.size(); ++i) {
          // The one product and sum among them contracts to an fma, which rounds once and does not overflow in between.
          const bool contracted = after[after.outputs[i]].op == Op::fma && graph[graph.outputs[i]].op != Op::fma;
          const float expected = contracted ? std::fma(x, y, -y) : want[i];
          EXPECT_TRUE(same(expected, got[i])) << "output " << i << " of " << want.size() << " at " << x << ", " << y << ": " << want[i]
                                              << " became " << got[i];
        }
      }
  }
}

// Rewrites that change a rounding keep the special values and stay within their documented error.
TEST(Simplify, inexact_rewrites_stay_within_their_error) {
  const Graph before = trace([](Expr x) { return std::tuple(1.0f / sqrt(x), 1.0f / rsqrt(x), pow(x, 3.0f)); });
  const Graph after = simplify(before);
  const double ulps[] = {1.5, 3, 1.5};
  for (float x : kSpecial) {
    const std::vector<float> want = evaluate_f32(before, std::array{x}), got = evaluate_f32(after, std::array{x});
    for (size_t i = 0; i < want.size(); ++i) {
      const bool ordinary = std::isfinite(want[i]) && want[i] != 0;
      EXPECT_TRUE(ordinary ? std::fabs(double(want[i]) - got[i]) <= ulps[i] * 0x1p-23 * std::fabs(want[i]) : same(want[i], got[i]))
          << "output " << i << " at " << x << ": " << want[i] << " became " << got[i];
    }
  }
}

TEST(Simplify, contraction_only_where_the_product_has_no_other_use) {
  const Graph once = simplified([](Expr x, Expr y) { return x * y + x; });
  EXPECT_EQ(count(once, Op::fma), 1);
  EXPECT_EQ(count(once, Op::mul), 0);
  const Graph twice = simplified([](Expr x, Expr y) { return std::tuple(x * y + x, x * y); });
  EXPECT_EQ(count(twice, Op::fma), 0);
  EXPECT_EQ(count(simplified([](Expr x, Expr y, Expr z) { return z - x * y; }), Op::fma), 1);
  EXPECT_EQ(count(simplified([](Expr x, Expr y, Expr z) { return x * y - z; }), Op::fma), 1);
  // The sign goes to a constant, or to the tensor rather than the parameter.
  EXPECT_EQ(count(simplified([](Expr x, Expr z) { return z - x * 3.0f; }), Op::neg), 0);
  const Graph step = simplified([](Expr w, Expr g, Param lr) { return w - lr * g; });
  for (int i = 0; i < step.size(); ++i)
    if (step[i].op == Op::neg) {
      EXPECT_EQ(step[step[i].a].op, Op::input);
    }
}

TEST(Simplify, order_of_writing_does_not_matter) {
  EXPECT_EQ(simplified([](Expr x, Expr y) { return x * y; }), simplified([](Expr x, Expr y) { return y * x; }));
  EXPECT_EQ(simplified([](Expr x, Expr y) { return exp(x) + log(y); }), simplified([](Expr x, Expr y) { return log(y) + exp(x); }));
  EXPECT_EQ(simplified([](Expr x, Expr y) { return (x * y + 1.0f) * (y * x + 1.0f); }),
            simplified([](Expr x, Expr y) { return pow(1.0f + y * x, 2.0f); }));
  const auto first = [](Expr x, Expr y) {
    Expr a = sin(x), b = cos(y);
    return a * b;
  };
  const auto second = [](Expr x, Expr y) {
    Expr b = cos(y), a = sin(x);
    return b * a;
  };
  EXPECT_EQ(simplified(first), simplified(second));
}

TEST(Simplify, random_expressions_keep_their_value_and_simplify_once) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomExpression random(seed);
    const Graph f = trace([&](Expr x, Expr y, Param p) {
      const std::vector<Expr> leaves = {x, y, p};
      return std::array{random.tree(leaves, 6), random.tree(leaves, 4)};
    });
    const Graph g = simplify(f);
    EXPECT_EQ(simplify(g), g);
    EXPECT_EQ(simplify(g).hash(), g.hash());
    EXPECT_LE(g.size(), f.size() + 1);
    for (int i = 0; i < g.size(); ++i)
      for (int operand : {g[i].a, g[i].b, g[i].c}) EXPECT_LT(operand, i);
    const std::vector<double> in = {random.number(), random.number()}, p = {random.number()};
    const auto want = evaluate(f, in, p), got = evaluate(g, in, p);
    // In float64 the documented changes of rounding are near 1e-16; folded constants are f32, 6e-8.
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 1e-5 * (1 + std::fabs(want[i])));
  }
}

}  // namespace
}  // namespace weft::expr
