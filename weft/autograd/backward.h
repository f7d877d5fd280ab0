// Reverse-mode differentiation: from a result to the gradients of the leaves that require them.
//
// Nodes are visited in reverse order of creation, so each sum of gradients has one order. A node's saved tensors are released
// with its visit: a graph can be walked once.
#pragma once

#include <span>

#include "weft/tensor/tensor.h"

namespace weft {

// Adds d loss / d leaf to leaf.grad() (f32) for every leaf that requires a gradient. `loss` must hold one element.
void backward(const Tensor& loss);

// As above for any tensor y, given its gradient.
void backward(const Tensor& y, const Tensor& dy);

// Sets the gradient of a leaf to zeros: in the memory it has, or in new memory if it has none yet. The next backward adds to it.
void zero_grad(const Tensor& leaf);

// For several results of one computation; an undefined gradient counts as zero.
void backward(std::span<const Tensor> y, std::span<const Tensor> dy);

}  // namespace weft
