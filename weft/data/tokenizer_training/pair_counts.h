// Pairs of tokens and how often they occur: open addressing. Not installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/io/tokenizer/merge_table.h"

namespace weft {

using TokenPair = uint64_t;  // left << 32 | right: pairs compare by left, then by right
inline TokenPair token_pair(uint32_t left, uint32_t right) { return TokenPair(left) << 32 | right; }
inline uint32_t left_of(TokenPair pair) { return uint32_t(pair >> 32); }
inline uint32_t right_of(TokenPair pair) { return uint32_t(pair); }

class PairCounts {
 public:
  void add(TokenPair pair, int64_t count) {
    if (3 * (pairs_ + 1) > 2 * slots_.size()) grow();
    Slot& slot = slots_[place(pair)];
    if (slot.pair == kEmpty) {
      slot.pair = pair;
      ++pairs_;
    }
    slot.count += count;
  }
  int64_t operator[](TokenPair pair) const {
    if (slots_.empty()) return 0;
    const Slot& slot = slots_[place(pair)];
    return slot.pair == kEmpty ? 0 : slot.count;
  }

 private:
  static constexpr TokenPair kEmpty = ~TokenPair(0);  // no pair: ids are small
  struct Slot {
    TokenPair pair = kEmpty;
    int64_t count = 0;
  };
  size_t place(TokenPair pair) const {
    const size_t mask = slots_.size() - 1;
    size_t at = size_t(mixed_bits(pair)) & mask;
    while (slots_[at].pair != pair && slots_[at].pair != kEmpty) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> before(slots_.empty() ? 1024 : slots_.size() * 2);
    before.swap(slots_);
    for (const Slot& slot : before)
      if (slot.pair != kEmpty) slots_[place(slot.pair)] = slot;
  }

  std::vector<Slot> slots_;
  size_t pairs_ = 0;
};

}  // namespace weft
