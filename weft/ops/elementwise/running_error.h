// The truth of an expression with a bound on its f32 error: float64 values, and for each the most that its f32 counterpart can be off,
// propagated from node to node.
//
//   error(out) = max over the corners a +- error(a), b +- error(b) of |op(corner) - out|  +  accuracy of op, in ulp of out
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "weft/expr/evaluate.h"
#include "weft/expr/graph.h"

namespace weft::spec {

struct Approximate {
  double value = 0, error = 0;
};

// The promised accuracy of one op on exact operands, in ulp of the result: half for what IEEE rounds correctly, the
// bounds of docs/numerics.md for the functions.
inline double ulps(expr::Op op) {
  using enum expr::Op;
  switch (op) {
    case add:
    case sub:
    case mul:
    case div:
    case sqrt:
    case reciprocal:
    case fma: return 0.5;
    case pow: return 0.51;
    case exp:
    case exp2:
    case log: return 1;
    case erf: return 1.25;
    case log2:
    case rsqrt: return 1.5;
    case sin:
    case cos: return 1.75;
    case log1p:
    case tanh:
    case atan2: return 2;
    case sigmoid: return 2.5;
    case tan: return 3.5;
    default: return 0;
  }
}

// The distance between floats at `value`.
inline double ulp(double value) {
  return value == 0 || !std::isfinite(value) ? 0x1p-149 : std::max(0x1p-149, std::ldexp(1.0, std::ilogb(value) - 23));
}

// Beyond the range of f32 is infinity.
inline double in_range(double value) { return std::abs(value) >= 0x1.ffffffp127 ? std::copysign(INFINITY, value) : value; }

inline Approximate apply_with_error(expr::Op op, const Approximate (&in)[3]) {
  const double value = in_range(expr::apply(op, in[0].value, in[1].value, in[2].value));
  if (!std::isfinite(value)) return {value, 0};
  double moved = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const auto at = [&](int i) { return in[i].value + (corner >> i & 1 ? in[i].error : -in[i].error); };
    const double there = expr::apply(op, at(0), at(1), at(2));
    if (std::isfinite(there)) moved = std::max(moved, std::abs(there - value));
  }
  return {value, moved + ulps(op) * ulp(std::abs(value) + moved)};
}

// The outputs of one element.
inline std::vector<Approximate> evaluate_with_error(const expr::Graph& graph, std::span<const double> inputs,
                                                    std::span<const float> parameters) {
  std::vector<Approximate> nodes;
  for (int i = 0; i < graph.size(); ++i) {
    const expr::Node& n = graph[i];
    switch (n.op) {
      case expr::Op::input: nodes.push_back({inputs[size_t(n.index)], 0}); break;
      case expr::Op::parameter: nodes.push_back({parameters[size_t(n.index)], 0}); break;
      case expr::Op::constant: nodes.push_back({n.value, 0}); break;
      default: {
        const auto of = [&](int node) { return node < 0 ? Approximate{} : nodes[size_t(node)]; };
        nodes.push_back(apply_with_error(n.op, {of(n.a), of(n.b), of(n.c)}));
      }
    }
  }
  std::vector<Approximate> outputs;
  for (int output : graph.outputs) outputs.push_back(nodes[size_t(output)]);
  return outputs;
}

}  // namespace weft::spec
