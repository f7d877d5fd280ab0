// 0, 1, 2, ... on a device, for learned positions and for masks.
//
// Rows are kept as long as the model lives, so that a captured step finds them where they were; each is at least twice as long
// as the one before, so that together they are less than four times the longest asked for. What has a row for each sequence
// is made of them when it is asked for, in memory of the pool.
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
