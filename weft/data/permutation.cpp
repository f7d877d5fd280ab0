#include "weft/data/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "weft/base/check.h"
#include "weft/base/philox.h"

namespace weft {

Permutation::Permutation(int64_t n, uint64_t seed, uint64_t epoch) : n_(n), seed_(seed), epoch_(epoch) {
  check(n >= 1 && n <= int64_t(1) << 62, "permutation", "cannot shuffle ", n, " elements");
  half_bits_ = std::max(1, (int(std::bit_width(uint64_t(n - 1))) + 1) / 2);
}

uint64_t Permutation::shuffle(uint64_t x) const {
  const uint64_t mask = (uint64_t(1) << half_bits_) - 1;
  uint32_t left = uint32_t(x >> half_bits_), right = uint32_t(x & mask);
  for (uint32_t round = 0; round < 8; ++round) {
    const PhiloxBlock drawn = philox({right, round, uint32_t(epoch_), uint32_t(epoch_ >> 32)}, {uint32_t(seed_), uint32_t(seed_ >> 32)});
    const uint32_t next = left ^ uint32_t(drawn[0] & mask);
    left = right;
    right = next;
  }
  return uint64_t(left) << half_bits_ | right;
}

int64_t Permutation::operator[](int64_t i) const {
  assert(0 <= i && i < n_);
  uint64_t x = uint64_t(i);
  do x = shuffle(x);
  while (x >= uint64_t(n_));
  return int64_t(x);
}

}  // namespace weft
