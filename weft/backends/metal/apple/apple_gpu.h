// An Apple GPU through the Metal framework: one of the two implementations of the seam (weft/tile/metal/seam.h). The other one is the
// simulator (weft/backends/metal/sim/simulator.h).
#pragma once

#include <memory>
#include <string>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

// The system's default GPU. Throws `unsupported` if there is none, or if it cannot run the kernels.
std::unique_ptr<Gpu> open_apple_gpu();
std::string why_no_apple_gpu();  // empty if there is one

}  // namespace weft::metal
