// A tensor that a backward rule needs again: the same memory, with no history, for as long as nobody writes there. In-place
// work (copy, fill, into(), an optimizer's step, Device::upload) between the forward and the backward pass would otherwise
// change the gradient without a word.
#pragma once

#include "weft/base/error.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Thrown where a kept tensor is read after it was overwritten; the walk back adds the op.
struct Overwritten : Error {
  explicit Overwritten(const Tensor& tensor);
  std::string message;
};

// What a rule captures in place of a Tensor. All views of one memory count as that memory.
class Kept {
 public:
  Kept() = default;
  Kept(const Tensor& x) : tensor_(x.detach()), writes_(written()) {}

  // The values: checked.
  const Tensor& tensor() const {
    if (written() != writes_) [[unlikely]]
      throw Overwritten(tensor_);
    return tensor_;
  }
  operator const Tensor&() const { return tensor(); }
  const View& view() const { return tensor().view(); }

  // What writing does not change.
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
