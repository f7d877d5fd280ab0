// Any elementwise function, written as a lambda, as one kernel with a gradient:
//
//   auto swiglu = fuse([](Expr g, Expr u) { return silu(g) * u; });
//   Tensor y = swiglu(gate, up);       // one kernel; its backward is one kernel too
//
//   y_j = f_j(x_1, ..., x_n; p)        dx_i = sum_j dy_j df_j/dx_i, summed over the axes along which x_i was repeated
//
// Inputs are f32, bf16 or f16 in any mixture; the computation is in f32; outputs round to nearest even. Shapes are
// aligned at their last axes, and an axis of 1 (or a missing one) is repeated: a scalar, a row vector [C] over rows, a
// column vector [R, 1] over columns. Docs: docs/expressions.md.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "weft/expr/trace.h"
#include "weft/ops/contract.h"
#include "weft/ops/elementwise/function.h"
#include "weft/ops/elementwise/geometry.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ElementwiseArgs {
  static constexpr const char* kOp = "elementwise";
  const ElementwiseFunction* function;
  std::span<const View> inputs;      // each broadcasts to the outputs' shape; unit stride along its rows
  std::span<const MutView> outputs;  // one shape; each may be exactly an input, and overlaps nothing else
  std::span<const float> parameters;
  // Found by elementwise() for the kernel.
  const Geometry* geometry = nullptr;
  const CompiledElementwise* compiled = nullptr;
};

// Checked launch into memory the caller owns.
void elementwise(Stream& stream, const ElementwiseArgs& args);
Cost cost(const ElementwiseArgs& args);

// New tensors of the inputs' common shape; `dtype` or that of the first input with that shape. Differentiable.
std::vector<Tensor> elementwise(const ElementwiseFunction& function, std::span<const Tensor* const> inputs,
                                std::span<const float> parameters, std::optional<DType> dtype);
// Writes into existing tensors, which may be inputs. Overwriting is not differentiable: no operand may require a gradient.
void elementwise_into(const ElementwiseFunction& function, std::span<const Tensor> outputs, std::span<const Tensor* const> inputs,
                      std::span<const float> parameters);

// A lambda of Expr (tensors), then Param (scalars that may differ per call), as a function of Tensor, then float.
template <class Lambda>
class Fused {
 public:
  using Arity = expr::arity_t<Lambda>;
  using Result = std::conditional_t<Arity::outputs == 1, Tensor, std::array<Tensor, size_t(Arity::outputs)>>;

  explicit Fused(const Lambda& lambda) : function_(elementwise_function(expr::trace(lambda))) {}

  // The same function with outputs of this dtype.
  Fused as(DType dtype) const {
    Fused other = *this;
    other.dtype_ = dtype;
    return other;
  }

  template <class... Args>
  Result operator()(const Args&... args) const {
    const Call call(args...);
    std::vector<Tensor> results = elementwise(*function_, call.inputs, call.parameters, dtype_);
    if constexpr (Arity::outputs == 1) {
      return std::move(results[0]);
    } else {
      Result out;
      std::move(results.begin(), results.end(), out.begin());
      return out;
    }
  }

  // Writes into `out` instead (one Tensor, or a std::array of them), which may be among the inputs.
  template <class... Args>
  void into(const Result& out, const Args&... args) const {
    const Call call(args...);
    if constexpr (Arity::outputs == 1)
      elementwise_into(*function_, {&out, 1}, call.inputs, call.parameters);
    else
      elementwise_into(*function_, out, call.inputs, call.parameters);
  }

  const ElementwiseFunction& function() const { return *function_; }

 private:
  // The arguments of a call, separated: one Tensor per Expr, then one number per Param.
  struct Call {
    std::array<const Tensor*, size_t(Arity::inputs)> inputs;
    std::array<float, size_t(Arity::parameters)> parameters;

    template <class... Args>
    explicit Call(const Args&... args) {
      static_assert(sizeof...(Args) == size_t(Arity::inputs + Arity::parameters), "one Tensor per Expr, then one number per Param");
      const std::tuple<const Args&...> all(args...);
      [&]<size_t... I, size_t... P>(std::index_sequence<I...>, std::index_sequence<P...>) {
        inputs = {&std::get<I>(all)...};
        parameters = {float(std::get<size_t(Arity::inputs) + P>(all))...};
      }(std::make_index_sequence<size_t(Arity::inputs)>(), std::make_index_sequence<size_t(Arity::parameters)>());
    }
  };

  std::shared_ptr<const ElementwiseFunction> function_;
  std::optional<DType> dtype_;
};

template <class Lambda>
Fused<Lambda> fuse(const Lambda& lambda) {
  return Fused<Lambda>(lambda);
}

}  // namespace weft
