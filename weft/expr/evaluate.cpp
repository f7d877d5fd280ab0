#include "weft/expr/evaluate.h"

#include <cassert>
#include <cmath>

#include "weft/base/check.h"

namespace weft::expr {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

template <class T, class Apply>
std::vector<T> run(const Graph& graph, std::span<const T> inputs, std::span<const T> parameters, Apply apply_op) {
  check(int(inputs.size()) == graph.inputs, "evaluate", "the expression has ", graph.inputs, " inputs, got ", inputs.size());
  check(int(parameters.size()) == graph.parameters, "evaluate", "the expression has ", graph.parameters, " parameters, got ",
        parameters.size());
  std::vector<T> value(size_t(graph.size()));
  const auto of = [&](int node) { return node < 0 ? T(0) : value[size_t(node)]; };
  for (int i = 0; i < graph.size(); ++i) {
    const Node& n = graph[i];
    switch (n.op) {
      case Op::input: value[size_t(i)] = inputs[size_t(n.index)]; break;
      case Op::parameter: value[size_t(i)] = parameters[size_t(n.index)]; break;
      case Op::constant: value[size_t(i)] = T(n.value); break;
      default: value[size_t(i)] = apply_op(n.op, of(n.a), of(n.b), of(n.c));
    }
  }
  std::vector<T> outputs;
  for (int output : graph.outputs) outputs.push_back(of(output));
  return outputs;
}

}  // namespace

double apply(Op op, double a, double b, double c) {
  switch (op) {
    case Op::input:
    case Op::parameter:
    case Op::constant: break;
    case Op::neg: return -a;
    case Op::abs: return std::fabs(a);
    case Op::exp: return std::exp(a);
    case Op::exp2: return std::exp2(a);
    case Op::log: return std::log(a);
    case Op::log2: return std::log2(a);
    case Op::log1p: return std::log1p(a);
    case Op::sqrt: return std::sqrt(a);
    case Op::rsqrt: return 1 / std::sqrt(a);
    case Op::reciprocal: return 1 / a;
    case Op::sin: return std::sin(a);
    case Op::cos: return std::cos(a);
    case Op::tan: return std::tan(a);
    case Op::tanh: return std::tanh(a);
    case Op::sigmoid: return sigmoid_of(a);
    case Op::erf: return std::erf(a);
    case Op::floor: return std::floor(a);
    case Op::round: return std::nearbyint(a);
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::min: return b < a || b != b ? b : a;
    case Op::max: return a < b || b != b ? b : a;
    case Op::pow: return std::pow(a, b);
    case Op::atan2: return std::atan2(a, b);
    case Op::less: return a < b ? 1 : 0;
    case Op::less_equal: return a <= b ? 1 : 0;
    case Op::equal: return a == b ? 1 : 0;
    case Op::fma: return std::fma(a, b, c);
    case Op::select: return a != 0 ? b : c;
  }
  assert(false && "a leaf has no operands to apply it to");
  return 0;
}

float fold(Op op, float a, float b, float c) {
  // Rounding + - * / and sqrt to float64 first does no harm: 53 bits are more than 2 * 24 + 1. That does not hold for fma.
  if (op == Op::fma) return std::fma(a, b, c);
  return float(apply(op, a, b, c));
}

std::vector<double> evaluate(const Graph& graph, std::span<const double> inputs, std::span<const double> parameters) {
  return run<double>(graph, inputs, parameters, apply);
}

std::vector<float> evaluate_f32(const Graph& graph, std::span<const float> inputs, std::span<const float> parameters) {
  return run<float>(graph, inputs, parameters, fold);
}

}  // namespace weft::expr
