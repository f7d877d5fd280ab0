// What a radix sort is made of: the exclusive sum over a threadgroup, and the rank of each key among those of its digit.
// Integers alone, every key's place is given by the keys before it: the sort is stable and has one result.
#pragma once

#include <metal_stdlib>

namespace weft {

constant constexpr int kDigits = 16;                                     // four bits
constant constexpr int kSortThreads = 256, kKeys = 8;                    // a thread has eight consecutive keys
constant constexpr int kSortBlock = kSortThreads * kKeys;

// The sum of x over the threads before this one; `slots` has one place for each simdgroup, and is free again after a barrier.
inline uint sum_before(uint x, uint thread_index, threadgroup uint* slots) {
  const uint inclusive = metal::simd_prefix_inclusive_sum(x);
  if (thread_index % 32 == 31) slots[thread_index / 32] = inclusive;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  uint before = inclusive - x;
  for (uint s = 0; s < thread_index / 32; ++s) before += slots[s];
  return before;
}

inline uint digit_of(uint key, int shift) { return (key >> shift) & uint(kDigits - 1); }

// How often each digit is among a thread's keys, four bits each: eight at most.
inline ulong digit_counts(thread const uint* keys, int count, int shift) {
  ulong counts = 0;
  for (int i = 0; i < count; ++i) counts += 1ul << (4 * digit_of(keys[i], shift));
  return counts;
}

// before[digit * 256 + thread] = keys of lower digits, and of this digit in threads before, all of this block. A barrier
// follows, so that any thread may read it.
inline void rank_digits(ulong counts, uint thread_index, threadgroup ushort* before, threadgroup uint* slots) {
  for (int digit = 0; digit < kDigits; ++digit) before[digit * kSortThreads + int(thread_index)] = ushort(counts >> (4 * digit) & 15);
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  threadgroup ushort* own = before + int(thread_index) * kDigits;  // sixteen in a row, which this thread sums up
  uint sum = 0;
  for (int i = 0; i < kDigits; ++i) sum += own[i];
  uint running = sum_before(sum, thread_index, slots);
  for (int i = 0; i < kDigits; ++i) {
    const uint here = own[i];
    own[i] = ushort(running);
    running += here;
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}

}  // namespace weft
