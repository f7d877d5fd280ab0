// Elements of a tensor of any strides, one to a thread: the index split over the axes.
#pragma once

#include <metal_stdlib>

#include "weft/tile/metal/strided_axes.h"

namespace weft {

struct StridedPlace {
  long a, b;  // elements from the start of each operand
};

inline StridedPlace strided_place(constant StridedAxes& axes, long index) {
  StridedPlace place = {0, 0};
  for (long axis = axes.rank - 1; axis >= 0; --axis) {
    const long rest = index / axes.extent[axis], i = index - rest * axes.extent[axis];
    place.a += i * axes.a[axis];
    place.b += i * axes.b[axis];
    index = rest;
  }
  return place;
}

}  // namespace weft
