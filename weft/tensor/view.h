// An operand of a launch: where its elements are, their dtype, shape and strides. A default View is "absent": an optional
// operand that is left out.
#pragma once

#include "weft/base/dtype.h"
#include "weft/base/shape.h"
#include "weft/device/buffer.h"

namespace weft {

struct View {
  const Buffer* buffer = nullptr;
  int64_t offset = 0;  // bytes from the start of the buffer
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;  // in elements

  explicit operator bool() const { return buffer != nullptr; }
  int rank() const { return shape.rank(); }
  int64_t numel() const { return shape.numel(); }
  bool contiguous() const;
};

// A view that may be written through.
struct MutView : View {};

// [start, stop) along `axis` of a View or MutView.
template <class AnyView>
AnyView part(AnyView view, int axis, int64_t start, int64_t stop) {
  view.offset += start * view.strides[axis] * size_of(view.dtype);
  view.shape[axis] = stop - start;
  return view;
}

// A view as rows of unit-stride elements: [rows, columns] with one stride between rows. What every row op works on.
struct Rows {
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;  // elements from one row to the next
};

// Collapses all axes but the last into rows; throws, naming op and operand, when the last axis is not unit-stride or
// the leading axes do not collapse to one stride.
Rows as_rows(const View& view, const char* op, const char* operand);

}  // namespace weft
