// Metal on Linux: the Gpu of weft/tile/metal/seam.h, run by the CPU.
//
// Kernel sources are those that Apple's compiler gets. They are rewritten to C++ (rewriter.h), compiled by clang 19 and cached on disk
// (compiler.h), loaded (module.h) and run with every thread on its own stack (threadgroup.h).
//
// A passing test does not prove that Apple's compiler accepts the source, nor anything about the precision of Apple's functions, weak
// memory order, or speed.
#pragma once

#include <memory>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

enum class SimMode {
  forward,   // groups and threads in ascending order
  random,    // groups, threads, and dispatches without a barrier between them, in a random order with a fixed seed
  flush,     // subnormals flushed to zero, and a * b + c contracted
  checked,   // checks races, bounds, uninitialised threadgroup memory, alignment; on one OS thread
  counting,  // as forward, and counts every byte of memory traffic
};

// Throws `unsupported` if there is no compiler for it.
std::unique_ptr<Gpu> open_simulator(SimMode mode);

}  // namespace weft::metal
