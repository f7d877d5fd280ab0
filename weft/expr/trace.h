// Traces a lambda to its graph. The lambda takes one Expr per tensor, then one Param per scalar passed with each call, and returns one Expr
// or a std::tuple, std::pair or std::array of them:
//
//   Graph step = trace([](Expr w, Expr g, Param lr) { return w - lr * g; });   // 2 inputs, 1 parameter, 1 output
//
// The lambda runs once, during the call. Ordinary C++ (loops, ifs over numbers, functions taking Expr) unrolls into the graph.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/base/check.h"
#include "weft/expr/expr.h"

namespace weft::expr {

namespace detail {
template <class T>
inline constexpr bool is_input = std::is_same_v<std::remove_cvref_t<T>, Expr>;
template <class T>
inline constexpr bool is_parameter = std::is_same_v<std::remove_cvref_t<T>, Param>;

template <class... Args>
constexpr bool inputs_come_first() {
  bool ok = true;
  [[maybe_unused]] bool parameter = false;
  ((parameter = parameter || is_parameter<Args>, ok = ok && is_parameter<Args> == parameter), ...);
  return ok;
}
}  // namespace detail

// Numbers of inputs, parameters and outputs of a function.
template <class Result, class... Args>
struct Arity {
  static_assert(((detail::is_input<Args> || detail::is_parameter<Args>) && ...),
                "a traced function takes Expr (tensors), then Param (scalars)");
  static_assert(detail::inputs_come_first<Args...>(), "a traced function takes its tensors (Expr) before its scalars (Param)");

  static constexpr int inputs = (0 + ... + int(detail::is_input<Args>));
  static constexpr int parameters = int(sizeof...(Args)) - inputs;
  static constexpr int outputs = [] {
    if constexpr (std::is_convertible_v<Result, Expr>)
      return 1;
    else
      return int(std::tuple_size_v<std::remove_cvref_t<Result>>);
  }();
};

namespace detail {
template <class R, class... A>
Arity<R, A...> arity_of(R (*)(A...));
template <class R, class C, class... A>
Arity<R, A...> arity_of(R (C::*)(A...));
template <class R, class C, class... A>
Arity<R, A...> arity_of(R (C::*)(A...) const);
template <class R, class... A>
Arity<R, A...> arity_of(R (*)(A...) noexcept);
template <class R, class C, class... A>
Arity<R, A...> arity_of(R (C::*)(A...) noexcept);
template <class R, class C, class... A>
Arity<R, A...> arity_of(R (C::*)(A...) const noexcept);

template <class F>
constexpr auto callee() {
  if constexpr (std::is_pointer_v<F>) {
    return F{};
  } else {
    static_assert(requires { &F::operator(); }, "a traced lambda must name its argument types: (Expr x), not (auto x)");
    return decltype(&F::operator()){};
  }
}
}  // namespace detail

// arity_t<F>::inputs, ::parameters, ::outputs
template <class F>
using arity_t = decltype(detail::arity_of(detail::callee<std::decay_t<F>>()));

template <class F>
Graph trace(F&& function) {
  using A = arity_t<F>;
  check(A::inputs > 0, "expression", "an expression needs at least one input, got ", A::inputs, " inputs and ", A::parameters,
        " parameters");
  check(A::outputs > 0, "expression", "an expression needs at least one output");
  Graph graph;
  graph.inputs = A::inputs;
  graph.parameters = A::parameters;
  // The leaves come first, in order, so that equal lambdas give equal graphs.
  for (int i = 0; i < A::inputs; ++i) graph.add({.op = Op::input, .index = i});
  for (int i = 0; i < A::parameters; ++i) graph.add({.op = Op::parameter, .index = i});
  auto result = [&]<int... I, int... P>(std::integer_sequence<int, I...>, std::integer_sequence<int, P...>) {
    return function(Expr(graph, I)..., Param(graph, A::inputs + P)...);
  }(std::make_integer_sequence<int, A::inputs>(), std::make_integer_sequence<int, A::parameters>());
  if constexpr (std::is_convertible_v<decltype(result), Expr>) {
    graph.outputs = {Expr(result).node_in(graph)};
  } else {
    std::apply([&](const auto&... output) { (graph.outputs.push_back(Expr(output).node_in(graph)), ...); }, result);
  }
  return graph;
}

}  // namespace weft::expr
