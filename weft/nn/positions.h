// 0, 1, 2, ... on a device, for learned positions and for masks. What was made is kept as long as the model lives, so that
// a captured step finds it where it was.
#pragma once

#include <map>
#include <utility>

#include "weft/tensor/tensor.h"

namespace weft {

class Positions {
 public:
  explicit Positions(Device& device) : device_(device) {}

  const Tensor& ids(int64_t B, int64_t T);  // [B, T], i32: each row 0 .. T - 1
  const Tensor& values(int64_t T);          // [T], f32

 private:
  Device& device_;
  std::map<std::pair<int64_t, int64_t>, Tensor> ids_;
  std::map<int64_t, Tensor> values_;
};

}  // namespace weft
