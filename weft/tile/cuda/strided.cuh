// Elements of a tensor of any strides, one to a thread: the index split over the axes.
#pragma once

#include "weft/base/shape.h"

namespace weft::cuda {

struct StridedAxes {
  int rank = 0;
  int64_t extent[kMaxRank];
  int64_t a[kMaxRank], b[kMaxRank];  // strides of two operands

  __device__ __forceinline__ void offsets(int64_t index, int64_t& at_a, int64_t& at_b) const {
    at_a = at_b = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t rest = index / extent[axis], i = index - rest * extent[axis];
      at_a += i * a[axis];
      at_b += i * b[axis];
      index = rest;
    }
  }
};

// Axes of 1 are left out, axes that are contiguous in both operands merged.
inline StridedAxes strided_axes(const Shape& shape, const Strides& a, const Strides& b) {
  StridedAxes s;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const int last = s.rank - 1;
    if (s.rank > 0 && s.a[last] == a[axis] * shape[axis] && s.b[last] == b[axis] * shape[axis]) {
      s.extent[last] *= shape[axis];
      s.a[last] = a[axis];
      s.b[last] = b[axis];
      continue;
    }
    s.extent[s.rank] = shape[axis];
    s.a[s.rank] = a[axis];
    s.b[s.rank++] = b[axis];
  }
  return s;
}

}  // namespace weft::cuda
