// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a keyed bijection of a
// 128-bit counter. Each number of the stream is computed independently, from integers alone, so the same counter gives the same bits on
// every device, thread and vector width.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock c, std::array<uint32_t, 2> key) {
  constexpr uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;  // multipliers
  constexpr uint32_t kW0 = 0x9E3779B9u, kW1 = 0xBB67AE85u;  // Weyl increments of the key
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(kM0) * c[0], p1 = uint64_t(kM1) * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ key[1], uint32_t(p0)};
    key[0] += kW0;
    key[1] += kW1;
  }
  return c;
}

// [0, 1) in steps of 2^-24: every value is exact in f32.
constexpr float unit_float(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }

// A host generator for initial weights and test data: the stream (seed, site), read in order.
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t seed, uint32_t site = 0) : key_{uint32_t(seed), uint32_t(seed >> 32)}, site_(site) {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = philox({uint32_t(index_), uint32_t(index_ >> 32), site_, 0}, key_);
      ++index_;
      used_ = 0;
    }
    return block_[used_++];
  }
  double uniform() { return (double(next()) + 0.5) * 0x1p-32; }  // (0, 1)
  double normal();                                               // mean 0, variance 1 (Box-Muller in float64)
  int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t site_;
  uint64_t index_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace weft
