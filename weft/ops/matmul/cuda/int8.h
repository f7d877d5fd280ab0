// Matmuls with an int8 B (MatmulArgs::scales): the bits of the matmul of its weights in a's dtype, for any number of rows.
#pragma once

#include "weft/ops/matmul/matmul.h"

namespace weft::cuda {

void multiply_int8(Stream& stream, const MatmulArgs& args);

}  // namespace weft::cuda
