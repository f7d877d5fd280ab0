#include "weft/nn/weights.h"

#include <cmath>
#include <numbers>

#include "weft/base/parallel.h"
#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"

namespace weft {
namespace {

// Four normal draws from the counter (index, site): two pairs by Box and Muller, in float64.
std::array<double, 4> normals(uint64_t index, uint32_t site, std::array<uint32_t, 2> key) {
  const PhiloxBlock words = philox({uint32_t(index), uint32_t(index >> 32), site, 1}, key);
  std::array<double, 4> z;
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * ((words[pair + 1] + 0.5) * 0x1p-32);
    z[pair] = radius * std::cos(angle);
    z[pair + 1] = radius * std::sin(angle);
  }
  return z;
}

std::vector<float> drawn(int64_t n, double deviation, uint64_t seed, uint32_t site) {
  constexpr int64_t kPiece = 1 << 16;
  std::vector<float> values(static_cast<size_t>(n));
  parallel_for(ceil_div(n, kPiece), available_threads(), [&](int64_t piece) {
    for (int64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); i += 4) {
      const std::array<double, 4> z = normals(uint64_t(i / 4), site, {uint32_t(seed), uint32_t(seed >> 32)});
      for (int64_t j = 0; j < std::min<int64_t>(4, n - i); ++j) values[size_t(i + j)] = float(deviation * z[size_t(j)]);
    }
  });
  return values;
}

}  // namespace

Tensor Weights::take(const std::string& name, const Shape& shape, const Init& init) {
  Tensor value = fetch(name, shape, init);
  if (trainable_) value.set_requires_grad();
  taken_.push_back({name, value});
  return value;
}

Tensor NewWeights::fetch(const std::string&, const Shape& shape, const Init& init) {
  if (init.deviation == 0) return full(device(), shape, init.constant, dtype());
  const uint32_t site = uint32_t(taken().size());
  return cast(Tensor::from_host(device(), shape, drawn(shape.numel(), init.deviation, seed_, site)), dtype());
}

}  // namespace weft
