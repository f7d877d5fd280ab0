// Named elementwise functions. Each is an expression (fuse), so every device has it and a function of your own is as fast. Tensors are f32,
// bf16 or f16 in any mixture, of any strides; a result has the first one's dtype.
//
//   bias_add:   y = x + bias             dx = dy      dbias = sum over rows of dy, in f32
//   add:        y = a + b                da = dy      db = dy
//   add_assign: dst = dst + src
//   scale:      y = x s, s = by factor   dx = dy s
//   soft_cap:   y = cap tanh(x / cap)    dx = dy (1 - (y / cap)^2)
//   activation: y = f(x)                 dx = dy f'(x)
//
// With s(t) = 1 / (1 + e^-t) the activations are
//
//   none:      f = x                     f' = 1
//   relu:      f = max(x, 0)             f' = 1 where x > 0, else 0
//   silu:      f = x s(x)                f' = s (1 + x (1 - s))
//   gelu_tanh: f = x s(t)                f' = s (1 + x t' (1 - s)),   t = 2 sqrt(2 / pi) (x + 0.044715 x^3)
//
// The last is x/2 (1 + tanh(t / 2)) (Hendrycks and Gimpel, 2016), as (1 + tanh(t / 2)) / 2 = s(t); in this form nothing
// cancels for negative x. NaN gives NaN; silu and gelu_tanh of -infinity are NaN, as in the equations; their derivatives at
// +-infinity are the limits 1 and 0.
#pragma once

#include "weft/ops/elementwise/kind.h"
#include "weft/tensor/tensor.h"

namespace weft {

class ElementwiseFunction;

// x [..., C] and bias [C]. Differentiable.
Tensor bias_add(const Tensor& x, const Tensor& bias);

// a + b, of one shape. Differentiable.
Tensor add(const Tensor& a, const Tensor& b);

// In place: neither may require a gradient (or NoGrad).
void add_assign(const Tensor& dst, const Tensor& src);

// `factor` is a device scalar (a loss scale, a clip factor), one f32; absent: 1. Differentiable in x; factor may not
// require a gradient.
Tensor scale(const Tensor& x, float by, const Tensor& factor = {});

// cap > 0. Differentiable.
Tensor soft_cap(const Tensor& x, float cap);
// The same in place, for an x that does not require a gradient; and the gradient dx = dy (1 - (y / cap)^2), written over dy.
void soft_cap_in_place(const Tensor& x, float cap);
void soft_cap_backward_in_place(const Tensor& y, const Tensor& dy, float cap);

// Differentiable.
Tensor activation(const Tensor& x, Activation kind);

// dx = dy f'(x): the first step in the backward of an op that ends in an activation. `kind` must not be none.
Tensor activation_backward(const Tensor& x, const Tensor& dy, Activation kind);
const ElementwiseFunction& activation_backward_function(Activation kind);

}  // namespace weft
