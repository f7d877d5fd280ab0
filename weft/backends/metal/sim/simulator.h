// Metal on Linux: the Gpu of weft/tile/metal/seam.h, run by the processor.
//
// Kernel texts are the ones that Apple's compiler gets. They are rewritten to C++ (rewriter.h), compiled by clang 19 and kept
// on disk (compiler.h), loaded (module.h) and run with every thread on a stack of its own (group.h).
//
// What a pass does not prove: that Apple's compiler takes the source, the precision of Apple's functions, weak memory order,
// and anything about speed.
#pragma once

#include <memory>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

enum class SimMode {
  forward,   // groups and threads in their order
  random,    // groups, threads, and dispatches without a barrier between them, in an order that a fixed seed decides
  flush,     // small numbers flushed to zero, and a * b + c contracted
  checked,   // races, bounds, uninitialised threadgroup memory, alignment; on one thread of the system
  counting,  // as forward, and every byte of memory traffic counted
};

// Throws `unsupported` where there is no compiler for it.
std::unique_ptr<Gpu> open_simulator(SimMode mode);

}  // namespace weft::metal
