// The gradient of an elementwise function, as another elementwise function.
//
// y_j = f_j(x_1 .. x_n), j = 1 .. m, and the upstream gradients dy_j give dx_i = sum_j dy_j (d f_j / d x_i): the vector-Jacobian product.
// One graph computes it for all wanted inputs and shares subexpressions with the forward pass (tanh' uses tanh). It is a Graph like any
// other, so it can be differentiated again.
//
// At kinks and steps:
//   abs'(0) = 0;  max and min give half of a tie to each operand (so softplus'(0) = 1/2);  floor, round and comparisons: 0;
//   select: the selected operand gets the gradient, the other 0 (so relu'(0) = 0, and clamp' = 1 at both ends);
//   pow(a, b): d/da = 0 where b = 0, d/db = 0 where a = 0 and NaN where a < 0.
// A gradient masked out by select is 0 and stays 0 on its way down: masks are applied last, after the products with derivatives, so that an
// infinite derivative of the branch not taken (sqrt at 0) has no effect. (A value shared by selects with different conditions gets the sum
// of their gradients, and that sum is multiplied without a mask.)
#pragma once

#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// Inputs of the result: the n inputs of f, then the m upstream gradients. Parameters: those of f (not differentiated). Outputs: dx_i for
// each i with wanted[i], in order. Upstream gradients with given[j] false count as zero and are not read; an empty `given` means all. The
// result is simplified.
Graph derivative(const Graph& f, const std::vector<bool>& wanted, const std::vector<bool>& given = {});

}  // namespace weft::expr
