// A shuffled order of 0 .. n-1 that needs no memory: element i is computed on its own.
//
// A balanced Feistel network of eight rounds over the smallest even number of bits that holds n is a bijection; values
// from n on are walked through it again until one falls below n (Black and Rogaway, 2002), at most four times as many on
// average. The round function is Philox, so the same seed gives the same order everywhere.
#pragma once

#include <cstdint>

namespace weft {

class Permutation {
 public:
  // `n` up to 2^62. Orders of different seeds or rounds of the data (`epoch`) have nothing to do with each other.
  Permutation(int64_t n, uint64_t seed, uint64_t epoch = 0);

  int64_t size() const { return n_; }
  int64_t operator[](int64_t i) const;  // 0 <= i < size()

 private:
  uint64_t shuffle(uint64_t x) const;

  int64_t n_;
  uint64_t seed_, epoch_;
  int half_bits_;
};

}  // namespace weft
