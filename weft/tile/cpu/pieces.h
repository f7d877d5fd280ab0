// Many tensors as one list of tasks: each cut into pieces of a fixed length, tensor by tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/base/parallel.h"

namespace weft::cpu {

struct Piece {
  size_t tensor;
  int64_t first, count;  // elements
};

class Pieces {
 public:
  // numel(i): the elements of tensor i. An empty tensor has no pieces.
  template <class F>
  Pieces(size_t tensors, int64_t length, F numel) : length_(length) {
    starts_.push_back(0);
    for (size_t i = 0; i < tensors; ++i) {
      numels_.push_back(numel(i));
      starts_.push_back(starts_.back() + ceil_div(numels_[i], length));
    }
  }

  int64_t count() const { return starts_.back(); }
  Piece at(int64_t task) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), task);
    const size_t tensor = size_t(after - starts_.begin()) - 1;
    const int64_t first = (task - starts_[tensor]) * length_;
    return {tensor, first, std::min(length_, numels_[tensor] - first)};
  }

 private:
  int64_t length_;
  std::vector<int64_t> starts_, numels_;
};

}  // namespace weft::cpu
