// A stable sort of words in threadgroup memory, four bits a pass. Integers alone: it has one result.
#pragma once

#include <metal_stdlib>

namespace weft {

constant constexpr int kDigits = 16, kSortThreads = 256;

// Scratch of the sort, beside the words.
struct SortSpace {
  threadgroup ushort* before;  // [kDigits * kSortThreads]
  threadgroup uint* slots;     // one for each simdgroup
};

// The sum of x over the threads before this one; `slots` is free again after a barrier.
inline uint sum_before(uint x, uint thread_index, threadgroup uint* slots) {
  const uint inclusive = metal::simd_prefix_inclusive_sum(x);
  if (thread_index % 32 == 31) slots[thread_index / 32] = inclusive;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  uint before = inclusive - x;
  for (uint s = 0; s < thread_index / 32; ++s) before += slots[s];
  return before;
}

// before[digit * 256 + thread], a count, becomes the counts of lower digits, and of this digit in threads before, added up.
inline void sum_counts(SortSpace space, uint thread_index) {
  threadgroup ushort* own = space.before + int(thread_index) * kDigits;  // sixteen in a row, which this thread adds up
  uint sum = 0;
  for (int i = 0; i < kDigits; ++i) sum += own[i];
  uint running = sum_before(sum, thread_index, space.slots);
  for (int i = 0; i < kDigits; ++i) {
    const uint here = own[i];
    own[i] = ushort(running);
    running += here;
  }
}

// Sorts the first `count` words by bits [low, high). A thread has kWords consecutive ones of kWords * 256; all 256 call this, after
// a barrier since words were written, and find them sorted after a barrier.
template <int kWords, class Word>
inline void sort_words(threadgroup Word* words, int count, int low, int high, SortSpace space, uint thread_index) {
  const int first = int(thread_index) * kWords, own = metal::clamp(count - first, 0, kWords);
  threadgroup ushort* mine = space.before + thread_index;
  for (int shift = low; shift < high; shift += 4) {
    Word held[kWords];
    for (int digit = 0; digit < kDigits; ++digit) mine[digit * kSortThreads] = 0;
    for (int i = 0; i < own; ++i) {
      held[i] = words[first + i];
      ++mine[int(held[i] >> shift & Word(kDigits - 1)) * kSortThreads];
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    sum_counts(space, thread_index);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (int i = 0; i < own; ++i) words[mine[int(held[i] >> shift & Word(kDigits - 1)) * kSortThreads]++] = held[i];
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  }
}

}  // namespace weft
