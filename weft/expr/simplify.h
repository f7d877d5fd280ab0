// Simplifies a graph: the same meaning with fewer nodes.
#pragma once

#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// Rewrites every node (rewrite.h), contracts (below), and drops what no output needs. The result is a fresh graph: the used inputs by
// index, then the parameters, then the rest, operands before users, in an order that depends on the structure only. simplify(simplify(g))
// == simplify(g).
Graph simplify(const Graph& graph);

// The only place where a multiplication and an addition become an fma; no compiler decides it.
//   a * b + c -> fma(a, b, c)    a * b - c -> fma(a, b, -c)    c - a * b -> fma(-a, b, c)    x * (1 / y) -> x / y
// only if the product (the reciprocal) has no other use: then it saves an instruction and a rounding. The result has one rounding instead
// of two, so it is more accurate; a product that would overflow, or a reciprocal of a subnormal, no longer does.
Graph contract(const Graph& graph);

// Drops nodes that no output needs and numbers the others.
Graph compact(const Graph& graph);

// Per input, whether an output depends on it.
std::vector<bool> inputs_used(const Graph& graph);

}  // namespace weft::expr
