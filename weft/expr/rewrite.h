// Local simplification: a graph that rewrites each node as it is added, given operands that are already simplified.
#pragma once

#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// The rules, in rewrite.cpp, hold for every f32 value: NaN stays NaN (with any sign and payload), infinities and the sign of zero are kept.
// The few that change a rounding are listed there with their error. Hence no x * 0 -> 0 (NaN, infinity, -0), no x + 0 -> x (-0 + 0 = 0), no
// x - x -> 0, no x / x -> 1.
class Rewriter {
 public:
  Graph graph;

  int add(Node node);

  int constant(float value) { return add({.op = Op::constant, .value = value}); }
  int make(Op op, int a, int b = -1, int c = -1) { return add({.op = op, .a = a, .b = b, .c = c}); }

  // Adds every node of `source`, operands before users; returns their numbers here. Inputs keep their indices.
  std::vector<int> import(const Graph& source);

 private:
  bool is_constant(int node) const { return graph[node].op == Op::constant; }
  bool is_constant(int node, float value) const;  // bit for bit: 0 is not -0
  bool is(int node, Op op) const { return graph[node].op == op; }
  bool is_comparison(int node) const;
  bool before(int a, int b) const;
  int insert(const Node& node);

  // Each returns the number of an equivalent node, or -1 if there is nothing to rewrite.
  int rewrite(const Node& node);
  int rewrite_unary(const Node& node);
  int rewrite_add(int a, int b);
  int rewrite_sub(int a, int b);
  int rewrite_mul(int a, int b);
  int rewrite_div(int a, int b);
  int rewrite_pow(int a, int b);
  int rewrite_fma(int a, int b, int c);
  int rewrite_select(int a, int b, int c);

  // Hash per node, of its structure only, so that operands are ordered the same however the graph was built.
  struct Key {
    int height;
    uint64_t hash;
  };
  std::vector<Key> keys_;
};

}  // namespace weft::expr
