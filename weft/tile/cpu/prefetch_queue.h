// Rows that are needed soon, prefetched a few at a time between other work: the hardware prefetcher does not recognize short rows far
// apart, and prefetched all at once they would stall for free line fill buffers.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "weft/base/parallel.h"

namespace weft::cpu {

class PrefetchQueue {
 public:
  void clear() { count_ = next_ = rows_ = 0; }

  // `count` rows of `columns` elements, `step` elements apart.
  template <class T>
  void add(const T* rows, int64_t step, int64_t count, int64_t columns) {
    if (count <= 0) return;
    assert(count_ < kMost);
    list_[count_++] = {reinterpret_cast<const char*>(rows), step * int64_t(sizeof(T)), count, columns * int64_t(sizeof(T))};
    rows_ += count;
  }
  // Spreads the rows that were added over `calls` calls of some().
  void spread(int64_t calls) { rate_ = ceil_div(rows_, calls); }

  void some() {
    for (int64_t left = rate_; next_ < count_ && left > 0; --left) {
      Rows& r = list_[next_];
      for (int64_t c = 0; c < r.bytes; c += 64) __builtin_prefetch(r.at + c, 0, 2);  // into L2: L1 is full of tiles
      r.at += r.step;
      if (--r.count == 0) ++next_;
    }
  }

 private:
  static constexpr int kMost = 8;
  struct Rows {
    const char* at;
    int64_t step, count, bytes;
  };
  Rows list_[kMost];
  int64_t count_ = 0, next_ = 0, rows_ = 0, rate_ = 0;
};

}  // namespace weft::cpu
