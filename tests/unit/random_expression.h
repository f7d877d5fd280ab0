// Seeded random expressions of moderate size whose arguments stay in the domain of every function.
#pragma once

#include <random>
#include <vector>

#include "weft/expr/expr.h"

namespace weft::expr {

class RandomExpression {
 public:
  explicit RandomExpression(uint64_t seed) : random_(seed) {}

  // A tree of at most this depth over these leaves; its value is bounded by about 4.
  Expr tree(const std::vector<Expr>& leaves, int depth) {
    if (depth == 0 || below(8) == 0) return below(5) == 0 ? Expr(number()) : leaves[size_t(below(int(leaves.size())))];
    const auto sub = [&] { return tree(leaves, depth - 1); };
    const auto positive = [](Expr x) { return 0.5f + 0.25f * x * x; };
    const Expr x = sub();
    switch (below(30)) {
      case 0: return -x;
      case 1: return abs(x);
      case 2: return exp(tanh(x));
      case 3: return exp2(sin(x));
      case 4: return log(positive(x));
      case 5: return log2(positive(x));
      case 6: return log1p(0.5f * x * x);
      case 7: return sqrt(positive(x));
      case 8: return rsqrt(positive(x));
      case 9: return reciprocal(positive(x));
      case 10: return sin(x);
      case 11: return cos(x);
      case 12: return tan(0.5f * tanh(x));
      case 13: return tanh(x);
      case 14: return sigmoid(x);
      case 15: return erf(x);
      case 16: return floor(x) * 0.25f;
      case 17: return round(x) * 0.25f;
      case 18: return 0.5f * (x + sub());
      case 19: return 0.5f * (x - sub());
      case 20: return tanh(x) * sub();
      case 21: return sub() / positive(x);
      case 22: return min(x, sub());
      case 23: return max(x, sub());
      case 24: return pow(positive(tanh(x)), tanh(sub()));
      case 25: return atan2(sub(), positive(x));
      case 26: return fma(0.5f, sub(), 0.5f * x);
      case 27: return select(x < sub(), sub(), silu(x));
      case 28: return softplus(sub()) - gelu_tanh(0.5f * x);
      default: return clamp(x, -0.75f, 1.25f) * gelu_erf(0.5f * sub());
    }
  }

  float number() { return std::uniform_real_distribution<float>(-1.5f, 1.5f)(random_); }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

 private:
  std::mt19937_64 random_;
};

}  // namespace weft::expr
