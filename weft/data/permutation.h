// A shuffled order of 0 .. n-1 without a table: element i is computed on its own.
//
// A balanced Feistel network of eight rounds over the smallest even number of bits that holds n is a bijection. A result of n or
// more goes through the network again until it falls below n (cycle walking; Black and Rogaway, 2002), at most four rounds on
// average. The round function is Philox, so the same seed gives the same order everywhere.
#pragma once

#include <cstdint>

namespace weft {

class Permutation {
 public:
  // `n` is at most 2^62. Different seeds and different epochs give independent orders.
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
