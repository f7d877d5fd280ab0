// A Gpu that does nothing, with buffers of address space alone: what a run takes from the pool is known without its work.
#pragma once

#include <memory>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

std::unique_ptr<Gpu> planned_gpu();

}  // namespace weft::metal
