// The walk back: from a result to the gradients of the leaves that asked for them.
#pragma once

#include "weft/tensor/tensor.h"

namespace weft {

// Adds d loss / d leaf to leaf.grad() (f32) for every leaf that requires a gradient. `loss` must hold one element.
void backward(const Tensor& loss);

// As above for any tensor, given the gradient of what comes after it.
void backward(const Tensor& y, const Tensor& dy);

}  // namespace weft
