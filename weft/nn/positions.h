// 0, 1, 2, ... on a device, for learned positions and for masks.
//
// Rows are kept as long as the model lives, so that a captured step finds them in place. Each is at least twice as long as the
// one before, so that all of them take less than four times the longest requested. Tensors with a row for each sequence are
// copied from them on request, in memory of the pool.
#pragma once

#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

class Positions {
 public:
  explicit Positions(Device& device) : device_(device) {}

  Tensor ids(int64_t B, int64_t T);  // [B, T], i32: each row 0 .. T - 1
  Tensor values(int64_t T);          // [T], f32

 private:
  Device& device_;
  std::vector<Tensor> ids_, values_;  // ascending lengths
};

}  // namespace weft
