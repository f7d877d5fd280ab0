// Matmuls of many rows with the activation, or its gradient, fused into the kernel.
#pragma once

#include "weft/ops/matmul/matmul.h"

namespace weft::cuda {

// Whether multiply_persistent supports this matmul: bf16 with gelu_tanh, or with slope_of and gelu_tanh; no batch axes; more than kFewRows
// rows; aligned operands; a GPU of sm_90a. The sums have the order of docs/numerics.md, "One order: CUDA".
bool takes_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan);
void multiply_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan);

}  // namespace weft::cuda
