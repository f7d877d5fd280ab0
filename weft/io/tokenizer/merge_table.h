// The merges of a BPE vocabulary: a pair of tokens to its rank and the token it becomes. Open addressing: one cache line for most lookups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Mixes the bits of a key so that its low bits can index a table (the finalizer of MurmurHash3).
inline uint64_t mixed_bits(uint64_t key) {
  key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdu;
  key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53u;
  return key ^ (key >> 33);
}

class MergeTable {
 public:
  struct Joined {
    int32_t rank, id;
  };

  void reserve(size_t merges) {
    size_t slots = 16;
    while (slots < 2 * merges) slots *= 2;  // at most half full: a miss ends after a few slots
    slots_.assign(slots, Slot{kEmpty, {0, 0}});
  }
  // The last of duplicates counts.
  void put(int32_t left, int32_t right, Joined joined) { slots_[place(key_of(left, right))] = {key_of(left, right), joined}; }

  const Joined* find(int32_t left, int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.joined;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t(0);  // no pair: ids are not negative
  struct Slot {
    uint64_t key;
    Joined joined;
  };
  static uint64_t key_of(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
  size_t place(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = size_t(mixed_bits(key)) & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace weft
