// Checks before any work, with messages that name the op, the operand and the values. Most come from the op's declaration of its
// operands (operands.h).
#pragma once

#include <initializer_list>

#include "weft/base/check.h"
#include "weft/base/cost.h"
#include "weft/device/stream.h"
#include "weft/tensor/view.h"

namespace weft {

inline double bytes_of(const View& view) { return view ? double(view.numel()) * double(size_of(view.dtype)) : 0; }

class Contract {
 public:
  // `stream` is where the op will run: every operand must live on its device.
  Contract(const char* op, const Stream& stream) : op_(op), device_(&stream.device()) {}

  // Defined, on this device, of one of these dtypes.
  const Contract& operand(const char* name, const View& view, std::initializer_list<DType> dtypes) const;
  // As operand(), but may be absent.
  const Contract& optional(const char* name, const View& view, std::initializer_list<DType> dtypes) const;

  const Contract& shape(const char* name, const View& view, const Shape& expected) const;
  const Contract& same_dtype(const char* name, const View& view, const char* other_name, const View& other) const;
  // No element is written twice: no stride 0 along an axis longer than 1.
  const Contract& distinct(const char* name, const View& view) const;
  // A `view` that starts at the address of `other` replaces it element by element: its rows must have the same stride.
  const Contract& same_rows_if_shared(const char* name, const View& view, const char* other_name, const View& other) const;
  // One device scalar: a tensor with a single element.
  const Contract& scalar(const char* name, const View& view, DType dtype) const;

  template <class... Parts>
  const Contract& require(bool ok, const Parts&... parts) const {
    check(ok, op_, parts...);
    return *this;
  }
  const char* op() const { return op_; }
  const Device& device() const { return *device_; }

 private:
  const char* op_;
  const Device* device_;
};

}  // namespace weft
