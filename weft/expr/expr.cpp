#include "weft/expr/expr.h"

#include "weft/base/check.h"
#include "weft/expr/evaluate.h"

namespace weft::expr {

int Expr::node_in(Graph& graph) const {
  if (graph_ == nullptr) return graph.add({.op = Op::constant, .value = value_});
  check(graph_ == &graph, "expression", "an operand belongs to another trace: an Expr must not outlive the lambda it was traced in");
  return node_;
}

Expr Expr::make(Op op, Expr a) {
  if (a.is_constant()) return fold(op, a.value_);
  return {*a.graph_, a.graph_->add({.op = op, .a = a.node_})};
}

Expr Expr::make(Op op, Expr a, Expr b) {
  Graph* graph = a.graph_ ? a.graph_ : b.graph_;
  if (graph == nullptr) return fold(op, a.value_, b.value_);
  const int first = a.node_in(*graph), second = b.node_in(*graph);
  return {*graph, graph->add({.op = op, .a = first, .b = second})};
}

Expr Expr::make(Op op, Expr a, Expr b, Expr c) {
  Graph* graph = a.graph_ ? a.graph_ : b.graph_ ? b.graph_ : c.graph_;
  if (graph == nullptr) return fold(op, a.value_, b.value_, c.value_);
  const int first = a.node_in(*graph), second = b.node_in(*graph), third = c.node_in(*graph);
  return {*graph, graph->add({.op = op, .a = first, .b = second, .c = third})};
}

}  // namespace weft::expr
