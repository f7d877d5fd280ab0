// Memory for the gradients of several leaves, one after the other in one buffer, so that one matmul can add to all of them. Each leaf's
// gradient stays a tensor of its own, with its own zeros and its own end; the buffer lives as long as one of them does.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

class GradientHome {
 public:
  explicit GradientHome(std::vector<Shape> shapes);

  // Memory for gradient i, f32 and not initialised: beside the others if one of them lives, else in a new buffer.
  Tensor place(Device& device, size_t i);

  // For a caller with memory of its own: the number of elements of all gradients, and the first of gradient i.
  int64_t elements() const { return first_.back(); }
  int64_t first(size_t i) const { return first_[i]; }

 private:
  std::vector<Shape> shapes_;
  std::vector<int64_t> first_;  // element of each gradient, then their number in all
  std::weak_ptr<Buffer> buffer_;
};

// Gives each leaf its place in one home. They require a gradient, have none yet, and differ in their first axis only.
void share_gradient_memory(std::span<const Tensor> leaves);

// Tensors that stand one after the other in memory as one, with the rows of all, to write to; absent if they do not.
MutView stacked(std::span<const Tensor> parts);

}  // namespace weft
