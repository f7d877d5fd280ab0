#include "weft/tensor/view.h"

#include "weft/base/check.h"

namespace weft {

bool View::contiguous() const {
  int64_t step = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && strides[axis] != step) return numel() == 0;
    step *= shape[axis];
  }
  return true;
}

Rows as_rows(const View& view, const char* op, const char* operand) {
  check(view.rank() >= 1, op, operand, " must have at least one axis");
  const int last = view.rank() - 1;
  Rows rows{1, view.shape[last], view.shape[last]};
  if (view.numel() == 0) {
    for (int axis = 0; axis < last; ++axis) rows.rows *= view.shape[axis];
    return rows;
  }
  check(view.shape[last] == 1 || view.strides[last] == 1, op, operand, " must have unit stride along its last axis, got strides ",
        view.strides, " for shape ", view.shape);
  bool first = true;
  for (int axis = last - 1; axis >= 0; --axis) {
    if (view.shape[axis] == 1) continue;
    if (first)
      rows.stride = view.strides[axis];
    else
      check(view.strides[axis] == rows.stride * rows.rows, op, operand, " must have equally spaced rows, got strides ", view.strides,
            " for shape ", view.shape);
    first = false;
    rows.rows *= view.shape[axis];
  }
  return rows;
}

}  // namespace weft
