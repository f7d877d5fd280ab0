// An elementwise function as a graph of nodes: the result of tracing a lambda, which is simplified, differentiated, emitted as source and
// run. Equal subexpressions are one node: add() finds an existing equal node (hash-consing), so node numbers are in topological order and
// two equal traces are equal graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::expr {

// Operands: none; one (a); two (a, b); three (a, b, c). Comparisons give 1 or 0; select takes b if a is not 0 (NaN is not 0). min and max
// are NaN if either operand is; of equals they return a. round goes to the even one of two neighbours. reciprocal is 1 / a and sqrt is
// sqrt(a), both correctly rounded.
enum class Op : uint8_t {
  input,      // index: which tensor
  parameter,  // index: which scalar given with each call
  constant,   // value
  neg,
  abs,
  exp,
  exp2,
  log,
  log2,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  sin,
  cos,
  tan,
  tanh,
  sigmoid,
  erf,
  floor,
  round,  // one
  add,
  sub,
  mul,
  div,
  min,
  max,
  pow,
  atan2,
  less,
  less_equal,
  equal,   // two
  fma,     // a * b + c, rounded once
  select,  // a != 0 ? b : c
};
inline constexpr int kOps = int(Op::select) + 1;

int operands(Op op);      // 0 to 3
const char* name(Op op);  // "exp"

struct Node {
  Op op;
  int a = -1, b = -1, c = -1;  // operands: node numbers
  int index = 0;               // of an input or a parameter
  float value = 0;             // of a constant

  bool operator==(const Node& other) const;  // constants by their bits
};

class Graph {
 public:
  // The number of this node, which may exist already. Does no rewriting: simplify.h does.
  int add(const Node& node);

  const Node& operator[](int node) const { return nodes_[size_t(node)]; }
  int size() const { return int(nodes_.size()); }

  int inputs = 0, parameters = 0;  // how many the function has, used or not
  std::vector<int> outputs;        // node numbers

  bool operator==(const Graph& other) const;
  uint64_t hash() const;  // equal graphs, equal hashes

 private:
  std::vector<Node> nodes_;
  uint64_t nodes_hash_ = 0;  // of all nodes, in order
  std::vector<int> table_;   // open addressing; node number + 1, 0 when free
};

}  // namespace weft::expr
