// Activation functions on a value in a register; the equations are in weft/ops/elementwise/functions.h.
#pragma once

#include <metal_stdlib>

namespace weft {

// As weft::Activation (weft/ops/elementwise/kind.h).
inline float activate(float x, int kind) {
  switch (kind) {
    case 1: return x < 0.0f ? 0.0f : x;  // relu; a NaN stays
    case 2: return x / (1.0f + metal::precise::exp(-x));
    case 3: return x / (1.0f + metal::precise::exp(-1.5957691216057308f * metal::fma(0.044715f * x * x, x, x)));
    default: return x;
  }
}

}  // namespace weft
