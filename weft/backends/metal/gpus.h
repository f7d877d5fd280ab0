// The two implementations of the seam (weft/tile/metal/seam.h), opened by name. A build has one of them: Apple's framework on
// macOS, the simulator elsewhere, where it was asked for.
#pragma once

#include <memory>
#include <string>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

// The system's default GPU (weft/backends/metal/apple). Throws `unsupported` when there is none, or it is not one that the
// kernels can run on.
std::unique_ptr<Gpu> open_apple_gpu();
std::string why_no_apple_gpu();  // empty when there is one

// The simulator (weft/backends/metal/sim). `mode` is "" (threads in order), "random" (in another order at every turn), "flush"
// (subnormal results become zero) or "checked" (races, bounds, uninitialised memory, alignment). Throws `unsupported` when
// its compiler is not there.
std::unique_ptr<Gpu> open_simulator(const std::string& mode);

// Why open_simulator would fail on this machine; empty when it would not.
std::string why_no_simulator();

}  // namespace weft::metal
