// Activation functions, element by element, with s(t) = 1 / (1 + e^-t):
//
//   none:      y = x                     dy/dx = 1
//   relu:      y = max(x, 0)             dy/dx = 1 where x > 0, else 0
//   silu:      y = x s(x)                dy/dx = s (1 + x (1 - s))
//   gelu_tanh: y = x s(t)                dy/dx = s (1 + x t' (1 - s)),   t = 2 sqrt(2 / pi) (x + 0.044715 x^3)
//
// The last is x/2 (1 + tanh(t / 2)) (Hendrycks and Gimpel, 2016), as (1 + tanh(t / 2)) / 2 = s(t); in this form nothing
// cancels for negative x. Everything is f32 or bf16, all operands alike. NaN gives NaN; silu and gelu_tanh of -infinity
// are NaN, as the equations are; their slopes at +-infinity are the limits 1 and 0.
#pragma once

#include "weft/ops/activation/kind.h"
#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ActivationArgs {
  static constexpr const char* kOp = "activation";
  View x;     // [..., C]
  MutView y;  // as x
  Activation kind;
};

struct ActivationBackwardArgs {
  static constexpr const char* kOp = "activation_backward";
  View x;      // [..., C]: what went into the activation
  View dy;     // as x
  MutView dx;  // as x
  Activation kind;
};

// Checked launches into memory the caller owns. y may be x, dx may be dy or x.
void activation(Stream& stream, const ActivationArgs& args);
void activation_backward(Stream& stream, const ActivationBackwardArgs& args);
Cost cost(const ActivationArgs& args);
Cost cost(const ActivationBackwardArgs& args);

Tensor activation(const Tensor& x, Activation kind);

// dx = dy times the slope at x; what a fused op's own backward rule starts with.
Tensor activation_backward(const Tensor& x, const Tensor& dy, Activation kind);

}  // namespace weft
