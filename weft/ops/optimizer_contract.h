// The operands of one tensor of an optimizer: of one shape, contiguous, f32 where it accumulates, and an f32 master copy exactly
// where the parameter is bf16.
#pragma once

#include <cmath>

#include "weft/ops/operands.h"

namespace weft {

// For the list `tensors` of an optimizer's Args, each with param, master and weight_decay.
template <class Args>
void check_tensors(const Contract& contract, const Args& args) {
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    const auto& t = args.tensors[i];
    check_operands(contract, t, {"tensors", i});
    contract.require(bool(t.master) == (t.param.dtype == DType::bf16), "tensors[", i,
                     "].master must be given exactly when param is bf16, but param is ", t.param.dtype);
    contract.require(std::isfinite(t.weight_decay) && t.weight_decay >= 0, "tensors[", i, "].weight_decay is ", t.weight_decay,
                     ", expected zero or more");
  }
}

// A parameter with a master copy is only written.
template <class Tensor>
double tensor_bytes(const Tensor& t) {
  return operand_bytes(t) - (t.master ? bytes_of(t.param) : 0);
}

}  // namespace weft
