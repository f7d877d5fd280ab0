// Activation functions on a value in a register (weft/tile/activation.h).
#pragma once

#include "weft/tile/activation.h"

namespace weft::cuda {

__device__ __forceinline__ float activate(float x, Activation kind) {
  switch (kind) {
    case Activation::none: return x;
    case Activation::relu: return x > 0 || x != x ? x : 0.0f;
    case Activation::silu: return x / (1.0f + expf(-x));
    case Activation::gelu_tanh: return x / (1.0f + expf(-1.5957691216057308f * fmaf(0.044715f * x * x, x, x)));
  }
  return x;
}

}  // namespace weft::cuda
