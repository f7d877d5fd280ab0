// What every optimizer asks of the operands of one tensor: one shape, packed, f32 where it accumulates, and an f32 master
// copy exactly where the parameter is bf16.
#pragma once

#include <cmath>
#include <string>

#include "weft/ops/contract.h"

namespace weft {

class OptimizerOperands {
 public:
  OptimizerOperands(const Contract& contract, size_t index, const View& param)
      : contract_(contract), where_(join("tensors[", index, "].")), param_(param) {
    packed("param", param, {DType::f32, DType::bf16});
  }

  const OptimizerOperands& gradient(const View& grad) const { return packed("grad", grad, {DType::f32, DType::bf16}); }
  const OptimizerOperands& state(const char* name, const View& view, bool wanted = true) const {
    if (wanted) return packed(name, view, {DType::f32});
    contract_.require(!view, where_, name, " is given, but these settings have no use for it");
    return *this;
  }
  const OptimizerOperands& master(const View& master) const {
    if (param_.dtype == DType::bf16) return packed("master", master, {DType::f32});
    contract_.require(!master, where_, "master goes with a bf16 parameter, but param is ", param_.dtype);
    return *this;
  }
  const OptimizerOperands& weight_decay(float value) const {
    contract_.require(std::isfinite(value) && value >= 0, where_, "weight_decay is ", value, ", expected zero or more");
    return *this;
  }

 private:
  const OptimizerOperands& packed(const char* member, const View& view, std::initializer_list<DType> dtypes) const {
    const std::string name = where_ + member;
    contract_.operand(name.c_str(), view, dtypes).shape(name.c_str(), view, param_.shape);
    contract_.require(view.contiguous(), name, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
    return *this;
  }

  const Contract& contract_;
  const std::string where_;
  const View& param_;
};

}  // namespace weft
