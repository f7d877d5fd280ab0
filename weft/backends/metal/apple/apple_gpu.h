// Apple's GPU through Apple's framework: one of the two implementations of the seam (weft/tile/metal/seam.h). The other is the
// simulator (weft/backends/metal/sim/simulator.h).
#pragma once

#include <memory>
#include <string>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

// The system's default GPU. Throws `unsupported` when there is none, or it is not one that the kernels can run on.
std::unique_ptr<Gpu> open_apple_gpu();
std::string why_no_apple_gpu();  // empty when there is one

}  // namespace weft::metal
