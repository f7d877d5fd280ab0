// The value type of traced lambdas. Every operation adds a node to the graph that is being traced:
//
//   [](Expr gate, Expr up) { return silu(gate) * up; }
//
// An Expr made of numbers only belongs to no graph; operations on such are computed immediately, in f32 (fold() of evaluate.h). Comparisons
// give 1 or 0. An Expr is valid while its trace (trace.h) runs.
#pragma once

#include "weft/expr/graph.h"

namespace weft::expr {

class Expr {
 public:
  Expr(float value) : value_(value) {}
  Expr(Graph& graph, int node) : graph_(&graph), node_(node) {}

  bool is_constant() const { return graph_ == nullptr; }
  float value() const { return value_; }  // of a constant
  // The node in `graph`; a constant is added to it first. An Expr of another graph is an error.
  int node_in(Graph& graph) const;

  // The op on these operands, as a node of their graph or, if all are constants, a constant.
  static Expr make(Op op, Expr a);
  static Expr make(Op op, Expr a, Expr b);
  static Expr make(Op op, Expr a, Expr b, Expr c);

 private:
  Graph* graph_ = nullptr;
  int node_ = -1;
  float value_ = 0;
};

// A scalar passed with each call (a learning rate, a step): it may change without a new kernel.
class Param : public Expr {
 public:
  using Expr::Expr;
};

inline Expr operator-(Expr a) { return Expr::make(Op::neg, a); }
inline Expr operator+(Expr a) { return a; }
inline Expr operator+(Expr a, Expr b) { return Expr::make(Op::add, a, b); }
inline Expr operator-(Expr a, Expr b) { return Expr::make(Op::sub, a, b); }
inline Expr operator*(Expr a, Expr b) { return Expr::make(Op::mul, a, b); }
inline Expr operator/(Expr a, Expr b) { return Expr::make(Op::div, a, b); }
inline Expr& operator+=(Expr& a, Expr b) { return a = a + b; }
inline Expr& operator-=(Expr& a, Expr b) { return a = a - b; }
inline Expr& operator*=(Expr& a, Expr b) { return a = a * b; }
inline Expr& operator/=(Expr& a, Expr b) { return a = a / b; }

inline Expr operator<(Expr a, Expr b) { return Expr::make(Op::less, a, b); }
inline Expr operator<=(Expr a, Expr b) { return Expr::make(Op::less_equal, a, b); }
inline Expr operator>(Expr a, Expr b) { return Expr::make(Op::less, b, a); }
inline Expr operator>=(Expr a, Expr b) { return Expr::make(Op::less_equal, b, a); }
inline Expr operator==(Expr a, Expr b) { return Expr::make(Op::equal, a, b); }
inline Expr operator!(Expr a) { return Expr::make(Op::equal, a, 0.0f); }
inline Expr operator!=(Expr a, Expr b) { return !(a == b); }

// b if a is not 0, else c. The operand not selected has no effect, not even as NaN.
inline Expr select(Expr a, Expr b, Expr c) { return Expr::make(Op::select, a, b, c); }
inline Expr operator&&(Expr a, Expr b) { return select(a, b != 0.0f, 0.0f); }
inline Expr operator||(Expr a, Expr b) { return select(a, 1.0f, b != 0.0f); }

inline Expr abs(Expr x) { return Expr::make(Op::abs, x); }
inline Expr exp(Expr x) { return Expr::make(Op::exp, x); }
inline Expr exp2(Expr x) { return Expr::make(Op::exp2, x); }
inline Expr log(Expr x) { return Expr::make(Op::log, x); }
inline Expr log2(Expr x) { return Expr::make(Op::log2, x); }
inline Expr log1p(Expr x) { return Expr::make(Op::log1p, x); }
inline Expr sqrt(Expr x) { return Expr::make(Op::sqrt, x); }
inline Expr rsqrt(Expr x) { return Expr::make(Op::rsqrt, x); }
inline Expr reciprocal(Expr x) { return Expr::make(Op::reciprocal, x); }
inline Expr sin(Expr x) { return Expr::make(Op::sin, x); }
inline Expr cos(Expr x) { return Expr::make(Op::cos, x); }
inline Expr tan(Expr x) { return Expr::make(Op::tan, x); }
inline Expr tanh(Expr x) { return Expr::make(Op::tanh, x); }
inline Expr sigmoid(Expr x) { return Expr::make(Op::sigmoid, x); }
inline Expr erf(Expr x) { return Expr::make(Op::erf, x); }
inline Expr floor(Expr x) { return Expr::make(Op::floor, x); }
inline Expr round(Expr x) { return Expr::make(Op::round, x); }
inline Expr min(Expr a, Expr b) { return Expr::make(Op::min, a, b); }
inline Expr max(Expr a, Expr b) { return Expr::make(Op::max, a, b); }
inline Expr pow(Expr a, Expr b) { return Expr::make(Op::pow, a, b); }
inline Expr atan2(Expr y, Expr x) { return Expr::make(Op::atan2, y, x); }
inline Expr fma(Expr a, Expr b, Expr c) { return Expr::make(Op::fma, a, b, c); }

// Compositions. NaN stays NaN in all of them.

// Written with comparisons rather than max and min: relu'(0) = 0, and clamp' = 1 on [low, high] with both ends.
inline Expr relu(Expr x) { return select(x <= 0.0f, 0.0f, x); }
inline Expr clamp(Expr x, Expr low, Expr high) { return select(x < low, low, select(high < x, high, x)); }

inline Expr silu(Expr x) { return x * sigmoid(x); }
// log(1 + e^x) without overflow.
inline Expr softplus(Expr x) { return max(x, 0.0f) + log1p(exp(-abs(x))); }
// x Phi(x), with Phi(x) = (1 + erf(x / sqrt 2)) / 2.
inline Expr gelu_erf(Expr x) { return 0.5f * x * (1.0f + erf(x * 0.707106781186547524f)); }
// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), written as x sigmoid(2 u): the same function, but 1 + tanh cancels for
// negative x and sigmoid does not.
inline Expr gelu_tanh(Expr x) { return x * sigmoid(x * (1.59576912160573f + 0.0713548162726009f * (x * x))); }

}  // namespace weft::expr

namespace weft {
using expr::Expr;
using expr::Param;
}  // namespace weft
