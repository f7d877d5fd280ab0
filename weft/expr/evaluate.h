// The meaning of each op in plain arithmetic: the reference of specs and tests, and constant folding.
#pragma once

#include <span>
#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// One op in float64; operands it does not take are ignored. Not for input, parameter, constant.
double apply(Op op, double a, double b = 0, double c = 0);

// One op rounded to f32. Arithmetic, reciprocal, sqrt and fma are correctly rounded; the others round the float64 value of libm, which is
// within 0.5001 ulp of the exact value.
float fold(Op op, float a, float b = 0, float c = 0);

// The outputs of one element, every node in float64.
std::vector<double> evaluate(const Graph& graph, std::span<const double> inputs, std::span<const double> parameters = {});

// The same with every node rounded to f32: the result of an exact machine of f32 operations.
std::vector<float> evaluate_f32(const Graph& graph, std::span<const float> inputs, std::span<const float> parameters = {});

}  // namespace weft::expr
