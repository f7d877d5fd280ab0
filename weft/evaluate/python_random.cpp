#include "weft/evaluate/python_random.h"

#include <bit>
#include <cassert>
#include <numeric>
#include <set>

namespace weft {
namespace {

constexpr size_t kWords = 624, kMiddle = 397;

}  // namespace

// init_by_array of the reference implementation, with the seed's 32-bit words as key.
PythonRandom::PythonRandom(uint64_t seed) {
  const std::array<uint32_t, 2> key = {uint32_t(seed), uint32_t(seed >> 32)};
  const size_t length = key[1] ? 2 : 1;
  state_[0] = 19650218;
  for (size_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + uint32_t(i);
  size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t k = kWords; k > 0; --k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525u)) + key[j] + uint32_t(j);
    advance();
    j = (j + 1) % length;
  }
  for (size_t k = kWords - 1; k > 0; --k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941u)) - uint32_t(i);
    advance();
  }
  state_[0] = 0x80000000u;
}

uint32_t PythonRandom::next() {
  if (at_ == kWords) {
    for (size_t i = 0; i < kWords; ++i) {
      const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kWords] & 0x7fffffffu);
      state_[i] = state_[(i + kMiddle) % kWords] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    at_ = 0;
  }
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint32_t PythonRandom::below(uint32_t n) {
  const int bits = std::bit_width(n);
  uint32_t drawn = next() >> (32 - bits);
  while (drawn >= n) drawn = next() >> (32 - bits);
  return drawn;
}

// Python copies a small population and draws from what is left of it; of a large one it draws again what it has drawn before.
std::vector<int64_t> PythonRandom::sample(int64_t n, int64_t k) {
  assert(k <= n);
  std::vector<int64_t> drawn;
  int64_t small = 21, power = 1;
  while (power < 3 * k) power *= 4;
  if (k > 5) small += power;
  if (n <= small) {
    std::vector<int64_t> pool(static_cast<size_t>(n));
    std::iota(pool.begin(), pool.end(), 0);
    for (int64_t i = 0; i < k; ++i) {
      const size_t j = below(uint32_t(n - i));
      drawn.push_back(pool[j]);
      pool[j] = pool[size_t(n - i - 1)];
    }
    return drawn;
  }
  std::set<int64_t> seen;
  while (int64_t(drawn.size()) < k)
    if (const int64_t j = below(uint32_t(n)); seen.insert(j).second) drawn.push_back(j);
  return drawn;
}

}  // namespace weft
