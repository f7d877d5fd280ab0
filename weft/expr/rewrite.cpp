#include "weft/expr/rewrite.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/expr/evaluate.h"

namespace weft::expr {
namespace {

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Whether x is +-2^k and both it and its reciprocal are normal: dividing by it equals multiplying by the reciprocal, exactly.
bool is_power_of_two(float value) {
  int exponent;
  return std::isfinite(value) && std::fabs(std::frexp(value, &exponent)) == 0.5f && exponent > -125 && exponent < 127;
}

}  // namespace

bool Rewriter::is_constant(int node, float value) const { return is_constant(node) && same_bits(graph[node].value, value); }

bool Rewriter::is_comparison(int node) const { return is(node, Op::less) || is(node, Op::less_equal) || is(node, Op::equal); }

// Order of the operands of a commutative op: constants last, the higher subexpression first, leaves by index.
bool Rewriter::before(int a, int b) const {
  if (is_constant(a) != is_constant(b)) return is_constant(b);
  const Key &ka = keys_[size_t(a)], &kb = keys_[size_t(b)];
  if (ka.height != kb.height) return ka.height > kb.height;
  if (graph[a].op != graph[b].op) return graph[a].op < graph[b].op;
  if (graph[a].index != graph[b].index) return graph[a].index < graph[b].index;
  return ka.hash < kb.hash;
}

int Rewriter::insert(const Node& node) {
  const int number = graph.add(node);
  if (number < int(keys_.size())) return number;
  Key key{0, (uint64_t(node.op) << 48) ^ (uint64_t(uint32_t(node.index)) << 32) ^ std::bit_cast<uint32_t>(node.value)};
  for (int operand : {node.a, node.b, node.c}) {
    if (operand >= 0) key.height = std::max(key.height, keys_[size_t(operand)].height + 1);
    // The rotation makes the position count; the multiplier is odd and arbitrary.
    key.hash = (std::rotl(key.hash, 23) ^ (operand >= 0 ? keys_[size_t(operand)].hash : 1)) * 0x9e3779b97f4a7c15u;
  }
  keys_.push_back(key);
  return number;
}

int Rewriter::add(Node node) {
  if ((node.op == Op::add || node.op == Op::mul || node.op == Op::equal || node.op == Op::fma) && before(node.b, node.a))
    std::swap(node.a, node.b);
  const int known = rewrite(node);
  return known >= 0 ? known : insert(node);
}

std::vector<int> Rewriter::import(const Graph& source) {
  std::vector<int> number(size_t(source.size()));
  const auto here = [&](int node) { return node < 0 ? -1 : number[size_t(node)]; };
  for (int i = 0; i < source.size(); ++i) {
    Node node = source[i];
    node.a = here(node.a), node.b = here(node.b), node.c = here(node.c);
    number[size_t(i)] = add(node);
  }
  return number;
}

int Rewriter::rewrite(const Node& node) {
  const int count = operands(node.op);
  if (count == 0) return -1;
  const auto constant_or_none = [&](int operand) { return operand < 0 || is_constant(operand); };
  if (constant_or_none(node.a) && constant_or_none(node.b) && constant_or_none(node.c)) {
    const auto value = [&](int operand) { return operand < 0 ? 0.0f : graph[operand].value; };
    return constant(fold(node.op, value(node.a), value(node.b), value(node.c)));
  }
  if (count == 1) return rewrite_unary(node);
  switch (node.op) {
    case Op::add: return rewrite_add(node.a, node.b);
    case Op::sub: return rewrite_sub(node.a, node.b);
    case Op::mul: return rewrite_mul(node.a, node.b);
    case Op::div: return rewrite_div(node.a, node.b);
    case Op::pow: return rewrite_pow(node.a, node.b);
    case Op::fma: return rewrite_fma(node.a, node.b, node.c);
    case Op::select: return rewrite_select(node.a, node.b, node.c);
    case Op::min: return node.a == node.b || is_constant(node.b, HUGE_VALF) ? node.a : -1;   // NaN stays NaN
    case Op::max: return node.a == node.b || is_constant(node.b, -HUGE_VALF) ? node.a : -1;  //
    case Op::less: return node.a == node.b ? constant(0) : -1;                               // for NaN too
    default: return -1;
  }
}

int Rewriter::rewrite_unary(const Node& node) {
  const Node x = graph[node.a];  // a copy: adding nodes reallocates them
  switch (node.op) {
    case Op::neg:
      if (x.op == Op::neg) return x.a;
      // Rounding to nearest is symmetric.
      if ((x.op == Op::mul || x.op == Op::div) && is_constant(x.b)) return make(x.op, x.a, constant(-graph[x.b].value));
      if (x.op == Op::div && is_constant(x.a)) return make(Op::div, constant(-graph[x.a].value), x.b);
      return -1;
    case Op::abs:
      if (x.op == Op::neg) return make(Op::abs, x.a);
      return x.op == Op::abs || x.op == Op::exp || x.op == Op::exp2 || x.op == Op::sigmoid || is_comparison(node.a) ? node.a : -1;
    case Op::reciprocal:
      if (x.op == Op::neg) return make(Op::neg, make(Op::reciprocal, x.a));
      // 1 / sqrt(x) -> rsqrt(x), which has the same special values: two roundings become the error of rsqrt, which is those two roundings
      // on the CPU and at most 2 ulp on the GPUs.
      if (x.op == Op::sqrt) return make(Op::rsqrt, x.a);
      // 1 / rsqrt(x) -> sqrt(x), which is correctly rounded: up to 3 ulp more accurate.
      if (x.op == Op::rsqrt) return make(Op::sqrt, x.a);
      return -1;
    case Op::floor:
    case Op::round: return x.op == Op::floor || x.op == Op::round || is_comparison(node.a) ? node.a : -1;
    default: return -1;
  }
}

int Rewriter::rewrite_add(int a, int b) {
  if (is_constant(b, -0.0f)) return a;  // only -0: -0 + 0 is 0
  if (is(b, Op::neg)) return make(Op::sub, a, graph[b].a);
  if (is(a, Op::neg)) return make(Op::sub, b, graph[a].a);
  // (m ? x : 0) + (m ? y : 0) -> m ? x + y : 0, and likewise for the other branch: sums of gradients under one mask.
  const Node x = graph[a], y = graph[b];
  if (x.op == Op::select && y.op == Op::select && x.a == y.a) {
    if (is_constant(x.c, 0) && is_constant(y.c, 0)) return make(Op::select, x.a, make(Op::add, x.b, y.b), x.c);
    if (is_constant(x.b, 0) && is_constant(y.b, 0)) return make(Op::select, x.a, x.b, make(Op::add, x.c, y.c));
  }
  return -1;
}

int Rewriter::rewrite_sub(int a, int b) {
  if (is_constant(a, -0.0f)) return make(Op::neg, b);                      // only -0: 0 - 0 is 0, not -0
  if (is_constant(b)) return make(Op::add, a, constant(-graph[b].value));  // one form for x - 1 and x + -1
  if (is(b, Op::neg)) return make(Op::add, a, graph[b].a);
  return -1;
}

int Rewriter::rewrite_mul(int a, int b) {
  if (is_constant(b, 1)) return a;
  if (is_constant(b, -1)) return make(Op::neg, a);
  // Signs move outwards, where they meet an addition or cancel.
  if (is(a, Op::neg) && is_constant(b)) return make(Op::mul, graph[a].a, constant(-graph[b].value));
  if (is(a, Op::neg) && is(b, Op::neg)) return make(Op::mul, graph[a].a, graph[b].a);
  if (is(a, Op::neg)) return make(Op::neg, make(Op::mul, graph[a].a, b));
  if (is(b, Op::neg)) return make(Op::neg, make(Op::mul, a, graph[b].a));
  return -1;
}

int Rewriter::rewrite_div(int a, int b) {
  if (is_constant(b) && is_power_of_two(graph[b].value)) return make(Op::mul, a, constant(1 / graph[b].value));
  if (is_constant(a, 1)) return make(Op::reciprocal, b);
  if (is_constant(a, -1)) return make(Op::neg, make(Op::reciprocal, b));
  if (is(a, Op::neg) && is(b, Op::neg)) return make(Op::div, graph[a].a, graph[b].a);
  if (is(a, Op::neg)) return make(Op::neg, make(Op::div, graph[a].a, b));
  if (is(b, Op::neg)) return make(Op::neg, make(Op::div, a, graph[b].a));
  return -1;
}

// Small powers become products, with the special values of pow: x^2 and 1/x are correctly rounded, x^3 is within 1 ulp.
// (Not sqrt for x^0.5: they differ at -0 and -infinity.)
int Rewriter::rewrite_pow(int a, int b) {
  if (is_constant(a, 1) || (is_constant(b) && graph[b].value == 0)) return constant(1);  // pow(NaN, 0) is 1
  if (is_constant(b, 1)) return a;
  if (is_constant(b, -1)) return make(Op::reciprocal, a);
  if (is_constant(b, 2)) return make(Op::mul, a, a);
  if (is_constant(b, 3)) return make(Op::mul, make(Op::mul, a, a), a);
  return -1;
}

int Rewriter::rewrite_fma(int a, int b, int c) {
  if (is_constant(b, 1)) return make(Op::add, a, c);
  if (is_constant(b, -1)) return make(Op::sub, c, a);
  if (is_constant(c, -0.0f)) return make(Op::mul, a, b);
  if (is(a, Op::neg) && is(b, Op::neg)) return make(Op::fma, graph[a].a, graph[b].a, c);
  if (is(a, Op::neg) && is_constant(b)) return make(Op::fma, graph[a].a, constant(-graph[b].value), c);
  return -1;
}

int Rewriter::rewrite_select(int a, int b, int c) {
  if (is_constant(a)) return graph[a].value != 0 ? b : c;
  if (b == c) return b;
  if (is_comparison(a) && is_constant(b, 1) && is_constant(c, 0)) return a;
  if (is(a, Op::equal) && is_constant(graph[a].b) && graph[graph[a].b].value == 0) return make(Op::select, graph[a].a, c, b);  // !x ? b : c
  return -1;
}

}  // namespace weft::expr
