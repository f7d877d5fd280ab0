#include "weft/expr/simplify.h"

#include "weft/expr/rewrite.h"

namespace weft::expr {
namespace {

std::vector<bool> reached_from_outputs(const Graph& graph) {
  std::vector<bool> reached(size_t(graph.size()), false);
  for (int output : graph.outputs) reached[size_t(output)] = true;
  for (int i = graph.size() - 1; i >= 0; --i) {
    if (!reached[size_t(i)]) continue;
    for (int operand : {graph[i].a, graph[i].b, graph[i].c})
      if (operand >= 0) reached[size_t(operand)] = true;
  }
  return reached;
}

// Counts the uses of each node, as operand of a live node or as output.
std::vector<int> count_uses(const Graph& graph) {
  const std::vector<bool> reached = reached_from_outputs(graph);
  std::vector<int> uses(size_t(graph.size()), 0);
  for (int output : graph.outputs) ++uses[size_t(output)];
  for (int i = 0; i < graph.size(); ++i) {
    if (!reached[size_t(i)]) continue;
    for (int operand : {graph[i].a, graph[i].b, graph[i].c})
      if (operand >= 0) ++uses[size_t(operand)];
  }
  return uses;
}

class Contraction {
 public:
  explicit Contraction(const Graph& source) : source_(source), uses_(count_uses(source)) {}

  Graph run() {
    out_.graph.inputs = source_.inputs;
    out_.graph.parameters = source_.parameters;
    for (int i = 0; i < source_.size(); ++i) number_.push_back(uses_[size_t(i)] > 0 ? contracted(source_[i]) : -1);
    for (int output : source_.outputs) out_.graph.outputs.push_back(here(output));
    return std::move(out_.graph);
  }

 private:
  int here(int node) const { return node < 0 ? -1 : number_[size_t(node)]; }
  bool once(int node, Op op) const { return source_[node].op == op && uses_[size_t(node)] == 1; }

  int contracted(Node n) {
    switch (n.op) {
      case Op::add:
        if (once(n.a, Op::mul)) return fma(n.a, here(n.b));
        if (once(n.b, Op::mul)) return fma(n.b, here(n.a));
        break;
      case Op::sub:
        if (once(n.a, Op::mul)) return fma(n.a, out_.make(Op::neg, here(n.b)));
        if (once(n.b, Op::mul) && negatable(n.b)) return negated_fma(n.b, here(n.a));
        break;
      case Op::mul:
        if (once(n.a, Op::reciprocal)) return out_.make(Op::div, here(n.b), here(source_[n.a].a));
        if (once(n.b, Op::reciprocal)) return out_.make(Op::div, here(n.a), here(source_[n.b].a));
        break;
      default: break;
    }
    n.a = here(n.a), n.b = here(n.b), n.c = here(n.c);
    return out_.add(n);
  }

  int fma(int product, int c) { return out_.make(Op::fma, here(source_[product].a), here(source_[product].b), c); }

  // The sign goes to a constant if there is one, else to a value that is a per-element operand anyway.
  bool negatable(int product) const {
    return source_[source_[product].a].op != Op::parameter || source_[source_[product].b].op != Op::parameter;
  }
  int negated_fma(int product, int c) {
    int a = here(source_[product].a), b = here(source_[product].b);
    if (out_.graph[b].op == Op::constant || out_.graph[a].op == Op::parameter) std::swap(a, b);
    return out_.make(Op::fma, out_.make(Op::neg, a), b, c);
  }

  const Graph& source_;
  const std::vector<int> uses_;
  std::vector<int> number_;
  Rewriter out_;
};

}  // namespace

Graph contract(const Graph& graph) { return Contraction(graph).run(); }

Graph compact(const Graph& graph) {
  const std::vector<bool> reached = reached_from_outputs(graph);
  Graph out;
  out.inputs = graph.inputs;
  out.parameters = graph.parameters;
  std::vector<int> number(size_t(graph.size()), -1);
  const auto add = [&](int i) {
    Node node = graph[i];
    for (int* operand : {&node.a, &node.b, &node.c})
      if (*operand >= 0) *operand = number[size_t(*operand)];
    number[size_t(i)] = out.add(node);
  };
  for (const Op leaf : {Op::input, Op::parameter}) {
    const int count = leaf == Op::input ? graph.inputs : graph.parameters;
    std::vector<int> by_index(size_t(count), -1);
    for (int i = 0; i < graph.size(); ++i)
      if (graph[i].op == leaf && reached[size_t(i)]) by_index[size_t(graph[i].index)] = i;
    for (int i : by_index)
      if (i >= 0) add(i);
  }
  // Depth first from each output with an explicit stack: recursion over a long chain would overflow the call stack.
  std::vector<int> stack;
  for (int output : graph.outputs) {
    stack.push_back(output);
    while (!stack.empty()) {
      const int i = stack.back();
      bool ready = true;
      for (int operand : {graph[i].c, graph[i].b, graph[i].a}) {
        if (operand < 0 || number[size_t(operand)] >= 0) continue;
        stack.push_back(operand);
        ready = false;
      }
      if (!ready) continue;
      stack.pop_back();
      if (number[size_t(i)] < 0) add(i);
    }
    out.outputs.push_back(number[size_t(output)]);
  }
  return out;
}

Graph simplify(const Graph& graph) {
  Rewriter rewriter;
  const std::vector<int> number = rewriter.import(graph);
  rewriter.graph.inputs = graph.inputs;
  rewriter.graph.parameters = graph.parameters;
  for (int output : graph.outputs) rewriter.graph.outputs.push_back(number[size_t(output)]);
  return compact(contract(rewriter.graph));
}

std::vector<bool> inputs_used(const Graph& graph) {
  const std::vector<bool> reached = reached_from_outputs(graph);
  std::vector<bool> used(size_t(graph.inputs), false);
  for (int i = 0; i < graph.size(); ++i)
    if (graph[i].op == Op::input && reached[size_t(i)]) used[size_t(graph[i].index)] = true;
  return used;
}

}  // namespace weft::expr
