// Counts of what a case moves and computes on a simulated GPU, for `weft bench` on such a device and for tests/metal/counters.cpp.
#pragma once

#include <optional>

#include "weft/backends/metal/metal_device.h"
#include "weft/spec/runner.h"

namespace weft::bench {

// False for variants that are no kernels of a model: host calls, user functions, fuzz.
bool has_kernel(const spec::Case& c);

// The least that a problem must move and compute; none if it has no cost or is too large to be simulated.
std::optional<Cost> countable_cost(const spec::Problem& problem, Device& device);

metal::Counters count(const spec::Problem& problem, Device& device);

}  // namespace weft::bench
