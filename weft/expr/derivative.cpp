#include "weft/expr/derivative.h"

#include <array>

#include "weft/base/check.h"
#include "weft/expr/rewrite.h"
#include "weft/expr/simplify.h"

namespace weft::expr {
namespace {

// A node of the graph under construction with arithmetic operators, so that the rules below read as on paper. (Expr would build nodes
// without simplifying them.)
struct Term {
  Rewriter* out = nullptr;
  int node = -1;

  Term operator-() const { return {out, out->make(Op::neg, node)}; }
};
Term make(Op op, Term a) { return {a.out, a.out->make(op, a.node)}; }
Term make(Op op, Term a, Term b) { return {a.out, a.out->make(op, a.node, b.node)}; }
Term operator+(Term a, Term b) { return make(Op::add, a, b); }
Term operator-(Term a, Term b) { return make(Op::sub, a, b); }
Term operator*(Term a, Term b) { return make(Op::mul, a, b); }
Term operator/(Term a, Term b) { return make(Op::div, a, b); }
Term number(float value, Term like) { return {like.out, like.out->constant(value)}; }
Term operator+(float a, Term b) { return number(a, b) + b; }
Term operator-(float a, Term b) { return number(a, b) - b; }
Term operator*(float a, Term b) { return number(a, b) * b; }
Term less(Term a, Term b) { return make(Op::less, a, b); }
Term is_zero(Term a) { return make(Op::equal, a, number(0, a)); }
Term select(Term a, Term b, Term c) { return {a.out, a.out->make(Op::select, a.node, b.node, c.node)}; }
Term where(Term a, Term b) { return select(a, b, number(0, b)); }   // b where a, else 0
Term unless(Term a, Term b) { return select(a, number(0, b), b); }  // 0 where a, else b

// g if a < b, half of it if they are equal: both operands of min and max share a tie.
Term if_less(Term a, Term b, Term g) { return select(less(a, b), g, where(make(Op::equal, a, b), 0.5f * g)); }

constexpr float kLn2 = 0.693147180559945309f, kLog2e = 1.44269504088896341f, kTwoOverSqrtPi = 1.12837916709551257f;

// y = op(a, b, c) and its upstream gradient g.
struct Site {
  Term a, b, c, y, g;
};
using Rule = Term (*)(const Site&);  // the gradient of one operand

struct Rules {
  Op op;
  Rule a = nullptr, b = nullptr, c = nullptr;  // absent: zero everywhere
};

// clang-format off
#define D(expression) [](const Site& s) { [[maybe_unused]] const auto [a, b, c, y, g] = s; return expression; }
constexpr std::array<Rules, kOps> kRules = {{
    {Op::input}, {Op::parameter}, {Op::constant},
    {Op::neg, D(-g)},
    {Op::abs, D(unless(is_zero(a), select(less(a, number(0, a)), -g, g)))},
    {Op::exp, D(g * y)},
    {Op::exp2, D(kLn2 * g * y)},
    {Op::log, D(g / a)},
    {Op::log2, D(kLog2e * g / a)},
    {Op::log1p, D(g / (1 + a))},
    {Op::sqrt, D(0.5f * g / y)},
    {Op::rsqrt, D(-0.5f * g * y * (y * y))},
    {Op::reciprocal, D(-(g * y * y))},
    {Op::sin, D(g * make(Op::cos, a))},
    {Op::cos, D(-(g * make(Op::sin, a)))},
    {Op::tan, D(g * (1 + y * y))},
    {Op::tanh, D(g * (1 - y * y))},
    {Op::sigmoid, D(g * (y * (1 - y)))},
    {Op::erf, D(kTwoOverSqrtPi * g * make(Op::exp, -(a * a)))},
    {Op::floor}, {Op::round},
    {Op::add, D(g), D(g)},
    {Op::sub, D(g), D(-g)},
    {Op::mul, D(g * b), D(g * a)},
    {Op::div, D(g / b), D(-(g / b * y))},
    {Op::min, D(if_less(a, b, g)), D(if_less(b, a, g))},
    {Op::max, D(if_less(b, a, g)), D(if_less(a, b, g))},
    {Op::pow, D(unless(is_zero(b), g * (b * make(Op::pow, a, -1 + b)))), D(unless(is_zero(a), g * (y * make(Op::log, a))))},
    {Op::atan2, D(g / (a * a + b * b) * b), D(-(g / (a * a + b * b) * a))},
    {Op::less}, {Op::less_equal}, {Op::equal},
    {Op::fma, D(g * b), D(g * a), D(g)},
    {Op::select, nullptr, D(where(a, g)), D(unless(a, g))},
}};
#undef D
// clang-format on

constexpr bool in_order() {
  for (int i = 0; i < kOps; ++i)
    if (int(kRules[size_t(i)].op) != i) return false;
  return true;
}
static_assert(in_order(), "one line per Op, in the order of the enum");

// A rule is linear in g, so a mask of g can be applied to the result instead: 0 * infinity never occurs.
Term apply_rule(Rule rule, Site site) {
  Rewriter& out = *site.g.out;
  const Node g = out.graph[site.g.node];
  const auto is_zero_constant = [&](int node) { return out.graph[node].op == Op::constant && out.graph[node].value == 0; };
  if (g.op == Op::select && is_zero_constant(g.c)) {
    site.g.node = g.b;
    return where({&out, g.a}, apply_rule(rule, site));
  }
  if (g.op == Op::select && is_zero_constant(g.b)) {
    site.g.node = g.c;
    return unless({&out, g.a}, apply_rule(rule, site));
  }
  return rule(site);
}

class Walk {
 public:
  Walk(const Graph& f, const std::vector<bool>& wanted)
      : f_(f), here_(out_.import(f)), gradient_(size_t(f.size())), depends_(size_t(f.size()), false) {
    for (int i = 0; i < f.size(); ++i) {
      const Node& n = f[i];
      depends_[size_t(i)] = n.op == Op::input && wanted[size_t(n.index)];
      for (int operand : {n.a, n.b, n.c})
        if (operand >= 0 && depends_[size_t(operand)]) depends_[size_t(i)] = true;
    }
  }

  Graph run(const std::vector<bool>& wanted, const std::vector<bool>& given) {
    const int outputs = int(f_.outputs.size());
    for (int j = 0; j < outputs; ++j)
      if (given.empty() || given[size_t(j)]) gradient(f_.outputs[size_t(j)], {&out_, out_.add({.op = Op::input, .index = f_.inputs + j})});
    for (int i = f_.size() - 1; i >= 0; --i) back(i);
    Graph& graph = out_.graph;
    graph.inputs = f_.inputs + outputs;
    graph.parameters = f_.parameters;
    for (int i = 0; i < f_.inputs; ++i)
      if (wanted[size_t(i)]) graph.outputs.push_back(of_input(i));
    return compact(contract(graph));
  }

 private:
  Term term(int node) { return node < 0 ? Term{} : Term{&out_, here_[size_t(node)]}; }

  // Adds to the gradient of a node of f.
  void gradient(int node, Term more) {
    if (!depends_[size_t(node)]) return;
    Term& sum = gradient_[size_t(node)];
    sum = sum.out == nullptr ? more : sum + more;
  }

  // All users come after a node, so its gradient is complete when the walk reaches it.
  void back(int i) {
    const Term g = gradient_[size_t(i)];
    if (g.out == nullptr) return;
    const Node& n = f_[i];
    const Rules& rules = kRules[size_t(n.op)];
    const Site site{term(n.a), term(n.b), term(n.c), term(i), g};
    if (rules.a != nullptr && depends_[size_t(n.a)]) gradient(n.a, apply_rule(rules.a, site));
    if (rules.b != nullptr && depends_[size_t(n.b)]) gradient(n.b, apply_rule(rules.b, site));
    if (rules.c != nullptr && depends_[size_t(n.c)]) gradient(n.c, apply_rule(rules.c, site));
  }

  int of_input(int index) {
    for (int i = 0; i < f_.size(); ++i)
      if (f_[i].op == Op::input && f_[i].index == index && gradient_[size_t(i)].out != nullptr) return gradient_[size_t(i)].node;
    return out_.constant(0);
  }

  const Graph& f_;
  Rewriter out_;
  std::vector<int> here_;       // node in out_ of each node of f
  std::vector<Term> gradient_;  // accumulated so far; none yet: out is null
  std::vector<bool> depends_;   // whether a node depends on a wanted input
};

}  // namespace

Graph derivative(const Graph& f, const std::vector<bool>& wanted, const std::vector<bool>& given) {
  check(int(wanted.size()) == f.inputs, "derivative", "the expression has ", f.inputs, " inputs, `wanted` has ", wanted.size());
  check(given.empty() || given.size() == f.outputs.size(), "derivative", "the expression has ", f.outputs.size(), " outputs, `given` has ",
        given.size());
  return Walk(f, wanted).run(wanted, given);
}

}  // namespace weft::expr
