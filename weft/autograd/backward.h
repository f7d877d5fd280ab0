// The walk back: from a result to the gradients of the leaves that asked for them.
//
// Nodes are visited in the reverse of the order in which they were made, so each sum of gradients has one order. What a
// node kept is released as soon as it has been visited: one graph can be walked once.
#pragma once

#include <span>

#include "weft/tensor/tensor.h"

namespace weft {

// Adds d loss / d leaf to leaf.grad() (f32) for every leaf that requires a gradient. `loss` must hold one element.
void backward(const Tensor& loss);

// As above for any tensor, given the gradient of what comes after it.
void backward(const Tensor& y, const Tensor& dy);

// Sets the gradient of a leaf to zeros: in the memory it has, or in new memory if it has none yet. The next backward adds to it.
void zero_grad(const Tensor& leaf);

// For several results of one computation; an undefined gradient counts as zero.
void backward(std::span<const Tensor> y, std::span<const Tensor> dy);

}  // namespace weft
