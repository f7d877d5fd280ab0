// Activation functions on a value in a register (weft/tile/activation.h).
#pragma once

#include <metal_stdlib>

#include "weft/tile/activation.h"

namespace weft {

inline float activate(float x, Activation kind) {
  switch (kind) {
    case Activation::none: return x;
    case Activation::relu: return x < 0.0f ? 0.0f : x;  // a NaN stays
    case Activation::silu: return x / (1.0f + metal::precise::exp(-x));
    case Activation::gelu_tanh: return x / (1.0f + metal::precise::exp(-1.5957691216057308f * metal::fma(0.044715f * x * x, x, x)));
  }
  return x;
}

}  // namespace weft
