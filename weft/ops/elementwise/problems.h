// Launches of expressions as problems of a spec.
#pragma once

#include <string>
#include <vector>

#include "weft/expr/derivative.h"
#include "weft/expr/evaluate.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/running_error.h"
#include "weft/spec/registry.h"

namespace weft::spec {

// An operand.
struct Wire {
  DType dtype = DType::f32;
  Shape shape;
  Fill fill = normal();
  Layout layout = Layout::contiguous;
};

inline std::string x(size_t i) { return join("x", i); }
inline std::string y(size_t i) { return join("y", i); }

// Element `at` of the output's shape within an input that was broadcast to it.
inline int64_t broadcast_index(const Shape& shape, const Shape& from, int64_t at) {
  int64_t index = 0, step = 1;
  for (int axis = shape.rank() - 1, own = from.rank() - 1; own >= 0; --axis, --own) {
    if (from[own] > 1) index += at % shape[axis] * step;
    step *= from[own];
    at /= shape[axis];
  }
  return index;
}

inline std::vector<double> element(const Truth& t, size_t inputs, const Shape& shape, int64_t at) {
  std::vector<double> values;
  for (size_t i = 0; i < inputs; ++i) values.push_back(t[x(i)][broadcast_index(shape, t[x(i)].shape, at)]);
  return values;
}

inline ElementwiseArgs args_of(const ElementwiseFunction& function, const std::vector<View>& in, const std::vector<MutView>& out,
                               const std::vector<float>& parameters) {
  return {.function = &function, .inputs = in, .outputs = out, .parameters = parameters};
}

// The launch of a traced graph. The value comes from the graph as it was traced, the bound from the graph as it is run.
// Outputs [0, in_place) overwrite the inputs of the same number.
inline Problem launch_of(const expr::Graph& traced, const std::vector<Wire>& inputs, Wire output, std::vector<float> parameters = {},
                         size_t in_place = 0) {
  const auto function = elementwise_function(traced);
  const size_t n = inputs.size(), m = traced.outputs.size();
  Problem p;
  for (size_t i = 0; i < n; ++i) {
    const Wire& w = inputs[i];
    i < in_place ? p.in_place(x(i), w.dtype, w.shape, w.fill, w.layout) : p.input(x(i), w.dtype, w.shape, w.fill, w.layout);
  }
  for (size_t j = in_place; j < m; ++j) p.output(y(j), output.dtype, output.shape, output.layout);
  const auto bind = [=](const Bound& b, std::vector<View>& in, std::vector<MutView>& out) {
    for (size_t i = 0; i < n; ++i) in.push_back(b.view(x(i)));
    for (size_t j = 0; j < m; ++j) out.push_back(j < in_place ? b.mut(x(j)) : b.mut(y(j)));
  };
  p.run = [=](Stream& stream, const Bound& b) {
    std::vector<View> in;
    std::vector<MutView> out;
    bind(b, in, out);
    elementwise(stream, args_of(*function, in, out, parameters));
  };
  p.cost = [=](const Bound& b) {
    std::vector<View> in;
    std::vector<MutView> out;
    bind(b, in, out);
    return cost(args_of(*function, in, out, parameters));
  };
  p.reference = [=](Truth& t) {
    for (int64_t at = 0; at < output.shape.numel(); ++at) {
      const std::vector<double> values = element(t, n, output.shape, at);
      const auto truth = evaluate_with_error(traced, values, parameters), run = evaluate_with_error(function->graph(), values, parameters);
      for (size_t j = 0; j < m; ++j) {
        Array& out = t[j < in_place ? result(x(j)) : y(j)];
        out.expect_within(at, truth[j].value, run[j].error);
      }
    }
  };
  return p;
}

// The derivative of a traced graph as a launch: inputs x, then dy; outputs dx, of the full shape.
inline Problem derivative_of(const expr::Graph& traced, std::vector<Wire> inputs, Wire output, std::vector<float> parameters = {}) {
  const size_t n = inputs.size(), m = traced.outputs.size();
  const expr::Graph derivative = expr::derivative(traced, std::vector<bool>(n, true));
  for (size_t j = 0; j < m; ++j) inputs.push_back({output.dtype, output.shape, normal(), output.layout});
  Problem p = launch_of(derivative, inputs, output, parameters);
  // <dy, f(x)>: its derivative by x_i is dx_i where x_i is not broadcast.
  p.loss = [=](const Truth& t) {
    double loss = 0;
    const std::vector<double> doubles(parameters.begin(), parameters.end());
    for (int64_t at = 0; at < output.shape.numel(); ++at) {
      const std::vector<double> values = element(t, n, output.shape, at), f = expr::evaluate(traced, values, doubles);
      for (size_t j = 0; j < m; ++j) loss += f[j] * t[x(n + j)][at];
    }
    return loss;
  };
  for (size_t i = 0; i < n; ++i)
    if (inputs[i].shape == output.shape) p.derivatives.push_back({x(i), y(i)});
  return p;
}

// The cases of functions.h (functions_spec.cpp).
void add_functions(Registry& registry, const std::string& op);

}  // namespace weft::spec
