// The op table of the counting device.
#pragma once

#include "weft/device/kernels.h"

namespace weft::counting {

const Kernels& kernels();

}  // namespace weft::counting
