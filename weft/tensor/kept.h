// A tensor that a backward rule reads again: the same memory, without history, checked to be unchanged. In-place work (copy,
// fill, into(), an optimizer's step, Device::upload) between the forward and the backward pass would otherwise change the
// gradient silently.
#pragma once

#include "weft/base/error.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Thrown when a kept tensor is read after it was overwritten; backward() adds the op.
struct Overwritten : Error {
  explicit Overwritten(const Tensor& tensor);
  std::string message;
};

// Captured by a rule in place of a Tensor. A write through any view of the memory counts.
class Kept {
 public:
  Kept() = default;
  Kept(const Tensor& x) : tensor_(x.detach()), writes_(written()) {}

  // The values, checked.
  const Tensor& tensor() const {
    if (written() != writes_) [[unlikely]]
      throw Overwritten(tensor_);
    return tensor_;
  }
  operator const Tensor&() const { return tensor(); }
  const View& view() const { return tensor().view(); }

  // Facts that writing does not change.
  const Shape& shape() const { return tensor_.shape(); }
  int rank() const { return tensor_.rank(); }
  DType dtype() const { return tensor_.dtype(); }
  Device& device() const { return tensor_.device(); }

 private:
  uint64_t written() const { return tensor_ ? tensor_.view().buffer->writes() : 0; }

  Tensor tensor_;
  uint64_t writes_ = 0;
};

}  // namespace weft
