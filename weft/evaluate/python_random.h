// The numbers of Python's random.Random, so that few-shot examples are those that lm-eval draws with the same seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// MT19937 (Matsumoto and Nishimura, 1998), seeded as Python seeds it with an integer.
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  uint32_t below(uint32_t n);  // uniform in [0, n); n >= 1

  // random.sample(range(n), k): k different indices below n, in the order drawn; k <= n.
  std::vector<int64_t> sample(int64_t n, int64_t k);

 private:
  uint32_t next();

  std::array<uint32_t, 624> state_{};
  size_t at_ = 624;
};

}  // namespace weft
