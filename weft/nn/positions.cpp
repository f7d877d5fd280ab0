#include "weft/nn/positions.h"

#include <numeric>

namespace weft {

const Tensor& Positions::ids(int64_t B, int64_t T) {
  Tensor& kept = ids_[{B, T}];
  if (kept) return kept;
  std::vector<int32_t> positions(size_t(B * T));
  for (int64_t b = 0; b < B; ++b) std::iota(positions.begin() + b * T, positions.begin() + (b + 1) * T, 0);
  return kept = Tensor::from_host(device_, {B, T}, positions);
}

const Tensor& Positions::values(int64_t T) {
  Tensor& kept = values_[T];
  if (kept) return kept;
  std::vector<float> positions(static_cast<size_t>(T));
  std::iota(positions.begin(), positions.end(), 0.0f);
  return kept = Tensor::from_host(device_, {T}, positions);
}

}  // namespace weft
