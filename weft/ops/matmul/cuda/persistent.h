// Matmuls of many rows whose activation is part of the kernel.
#pragma once

#include "weft/ops/matmul/matmul.h"

namespace weft::cuda {

// Whether multiply_persistent takes this matmul: gelu_tanh of a bf16 product without a batch, or the product times its slope, of more than
// kFewRows rows with aligned operands, on a GPU of sm_90a. The bits are those of the one order.
bool takes_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan);
void multiply_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan);

}  // namespace weft::cuda
