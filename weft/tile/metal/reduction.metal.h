// The term, the combination and the identity of a reduction: 0 sum, 1 sum of squares, 2 maximum.
#pragma once

#include "weft/tile/metal/team.metal.h"

namespace weft {

template <int K>
struct Reducing {
  static float identity() { return K == 2 ? -INFINITY : 0.0f; }
  static float term(float v) { return K == 1 ? v * v : v; }
  static float combine(float a, float b) { return K == 2 ? MaxOrNan::combine(a, b) : a + b; }
};

}  // namespace weft
