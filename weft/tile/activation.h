// The activation functions that a kernel may apply to a value before it stores it: one enum for the host, CUDA and MSL. The
// equations are in weft/ops/elementwise/functions.h; the functions on values in registers in tile/cpu/activation.h,
// tile/cuda/activation.cuh and tile/metal/activation.metal.h, each a switch without a default, so that none is left out.
#pragma once

namespace weft {

enum class Activation : unsigned char { none, relu, silu, gelu_tanh };

}  // namespace weft
