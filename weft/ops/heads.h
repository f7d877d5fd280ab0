// The operands of the attentions: [B, T, H, D] with any strides over B, T and H, and each head's D
// elements next to each other. A [B, H, T, D] tensor is passed as permute({0, 2, 1, 3}), a part of a packed qkv as part().
#pragma once

#include "weft/ops/contract.h"

namespace weft {

inline const Contract& require_heads(const Contract& contract, const char* name, const View& view) {
  contract.require(view.rank() == 4, name, " must be [batch, time, heads, head_dim], got shape ", view.shape);
  return contract.require(view.shape[3] <= 1 || view.strides[3] == 1 || view.numel() == 0, name,
                          " must have unit stride along head_dim, got strides ", view.strides, " for shape ", view.shape);
}

// An output must also not be spread over itself: two elements in one place would have no defined value.
inline const Contract& require_heads(const Contract& contract, const char* name, const MutView& view) {
  require_heads(contract, name, static_cast<const View&>(view));
  for (int axis = 0; axis < 3; ++axis)
    contract.require(view.shape[axis] <= 1 || view.strides[axis] != 0 || view.numel() == 0, name, " is written to, so axis ", axis,
                     " may not have stride 0 (shape ", view.shape, ")");
  return contract;
}

}  // namespace weft
