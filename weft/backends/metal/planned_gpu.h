// A Gpu that computes nothing, with buffers of address space only: reports what a run would allocate without doing its work.
#pragma once

#include <memory>

#include "weft/tile/metal/seam.h"

namespace weft::metal {

std::unique_ptr<Gpu> planned_gpu();

}  // namespace weft::metal
