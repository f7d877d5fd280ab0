// Elements of a tensor of any strides, one to a thread: the launcher's half of strided.metal.h.
#pragma once

#include <algorithm>

#include "weft/base/shape.h"
#include "weft/tile/metal/strided_axes.h"

namespace weft::metal {

static_assert(kMaxRank <= 6);

// Axes of 1 are left out, axes that are contiguous in both operands merged.
inline StridedAxes strided_axes(const Shape& shape, const Strides& a, const Strides& b) {
  StridedAxes s{};
  s.count = shape.numel();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const int64_t last = s.rank - 1;
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

// Threadgroups of `threads` for `items`, where kernels stride: positions stay below 2^32.
inline int64_t striding_groups(int64_t items, int threads) { return std::min<int64_t>((items + threads - 1) / threads, int64_t(1) << 20); }

}  // namespace weft::metal
