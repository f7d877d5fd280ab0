#include "weft/ops/contract.h"

#include <algorithm>

#include "weft/device/device.h"

namespace weft {
namespace {

std::string listed(std::initializer_list<DType> dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += (text.empty() ? "" : " or ") + std::string(name(dtype));
  return text;
}

}  // namespace

const Contract& Contract::operand(const char* name, const View& view, std::initializer_list<DType> dtypes) const {
  check(bool(view), op_, name, " is missing (an undefined tensor)");
  return optional(name, view, dtypes);
}

const Contract& Contract::optional(const char* name, const View& view, std::initializer_list<DType> dtypes) const {
  if (!view) return *this;
  // The parts of these messages are strings, made only when there is something to say.
  if (&view.buffer->device() != device_) [[unlikely]]
    check(false, op_, name, " is on another device (", view.buffer->device().name(), ") than the op's (", device_->name(), ")");
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) [[unlikely]]
    check(false, op_, name, " is ", view.dtype, ", expected ", listed(dtypes));
  return *this;
}

const Contract& Contract::shape(const char* name, const View& view, const Shape& expected) const {
  if (view) check(view.shape == expected, op_, name, " has shape ", view.shape, ", expected ", expected);
  return *this;
}

const Contract& Contract::same_dtype(const char* name, const View& view, const char* other_name, const View& other) const {
  if (view && other) check(view.dtype == other.dtype, op_, name, " is ", view.dtype, " but ", other_name, " is ", other.dtype);
  return *this;
}

const Contract& Contract::distinct(const char* name, const View& view) const {
  for (int axis = 0; axis < view.rank(); ++axis)
    check(view.shape[axis] <= 1 || view.strides[axis] != 0, op_, name, " has stride 0 along axis ", axis, " of shape ", view.shape,
          ": its elements would be written more than once");
  return *this;
}

const Contract& Contract::same_rows_if_shared(const char* name, const View& view, const char* other_name, const View& other) const {
  if (view.buffer != other.buffer || view.offset != other.offset) return *this;
  const Rows rows = as_rows(view, op_, name), others = as_rows(other, op_, other_name);
  check(rows.rows <= 1 || rows.stride == others.stride, op_, name, " starts where ", other_name, " does but has row stride ", rows.stride,
        ", not ", others.stride);
  return *this;
}

const Contract& Contract::scalar(const char* name, const View& view, DType dtype) const {
  operand(name, view, {dtype});
  check(view.numel() == 1, op_, name, " must hold one element, got shape ", view.shape);
  return *this;
}

}  // namespace weft
