// A graph with the same meaning and fewer nodes.
#pragma once

#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// Rewrites every node (rewrite.h), contracts (below), drops what no output needs. The result is a fresh graph: the
// inputs in use by index, then the parameters, then the rest, operands before users, in an order that depends on the
// structure alone. simplify(simplify(g)) == simplify(g).
Graph simplify(const Graph& graph);

// Where a multiplication and an addition become one fma, and nowhere else; no compiler is left to decide it.
//   a * b + c -> fma(a, b, c)    a * b - c -> fma(a, b, -c)    c - a * b -> fma(-a, b, c)    x * (1 / y) -> x / y
// only where the product (the reciprocal) has no other use: then it saves an instruction and a rounding. One rounding
// instead of two, so nearer to the truth; a product that would overflow, or a reciprocal of a subnormal, no longer does.
Graph contract(const Graph& graph);

// Drops nodes that no output needs and numbers the others.
Graph compact(const Graph& graph);

// Per input, whether an output depends on it.
std::vector<bool> inputs_used(const Graph& graph);

}  // namespace weft::expr
