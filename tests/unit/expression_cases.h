// The expressions whose emitted text is in tests/golden/expr and compiled by the tests.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "weft/expr/derivative.h"
#include "weft/expr/emit.h"
#include "weft/expr/simplify.h"
#include "weft/expr/trace.h"

namespace weft::expr {

struct EmitCase {
  std::string name;  // of the file and of the kernel
  Graph graph;
  Signature signature;
};

inline std::vector<EmitCase> emit_cases() {
  using enum DType;
  const Operand x{f32};
  const auto swiglu = [](Expr g, Expr u) { return silu(g) * u; };
  std::vector<EmitCase> cases = {
      {"multiply_add", trace([](Expr x, Expr y) { return x * y + x; }), {{x, x}, {f32}}},
      {"silu", trace([](Expr x) { return silu(x); }), {{x}, {f32}}},
      {"swiglu", trace(swiglu), {{{bf16}, {bf16}}, {bf16}}},
      {"swiglu_backward", derivative(trace(swiglu), {true, true}), {{x, x, x}, {f32, f32}}},
      {"gelu_tanh", trace([](Expr x) { return gelu_tanh(x); }), {{x}, {f32}}},
      {"gelu_erf", trace([](Expr x) { return gelu_erf(x); }), {{x}, {f32}}},
      {"reciprocal", trace([](Expr x) { return 1.0f / x; }), {{x}, {f32}}},
      {"softplus", trace([](Expr x) { return softplus(x); }), {{x}, {f32}}},
      {"softplus_backward", derivative(trace([](Expr x) { return softplus(x); }), {true}), {{x, x}, {f32}}},
      {"bias_add", trace([](Expr x, Expr bias) { return x + bias; }), {{x, x}, {f32}, 1}},
      {"row_scale", trace([](Expr x, Expr scale) { return x * scale; }), {{x, {f32, false}}, {f32}, 1}},
      {"adam",
       trace([](Expr w, Expr m, Expr v, Expr g, Param lr, Param beta1, Param beta2) {
         const Expr m1 = m + (1 - beta1) * (g - m), v1 = v + (1 - beta2) * (g * g - v);
         return std::tuple(w - lr * m1 / (sqrt(v1) + 1e-8f), m1, v1);
       }),
       {{x, x, x, x}, {f32, f32, f32}}},
      {"sine_and_cosine", trace([](Expr x) { return std::tuple(sin(x), cos(x)); }), {{x}, {f32, f32}}},
      {"deep",
       trace([](Expr x) {
         const Expr s = sqrt(abs(x)), t = tanh(x) * sin(s) + exp(-s);
         return select(x > 0, log1p(t * t), t);
       }),
       {{x}, {f32}}},
      {"mixed_dtypes",
       trace([](Expr x, Expr y, Expr s) { return std::pair(x * y + s, x - y); }),
       {{{bf16}, {f16}, {f32, false}}, {f32, bf16}, 2}},
      {"f16_in_and_out", trace([](Expr x, Expr s) { return pow(abs(x), s); }), {{{f16}, {f16, false}}, {f16}}},
      {"select_and_clamp",
       trace([](Expr x, Expr y) { return select(x < y, clamp(x, -1, 1), max(y, 0) - std::numeric_limits<float>::infinity() * floor(x)); }),
       {{x, x}, {f32}}},
  };
  for (EmitCase& c : cases) c.graph = simplify(c.graph);
  return cases;
}

}  // namespace weft::expr
