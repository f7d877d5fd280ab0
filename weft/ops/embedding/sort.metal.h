// Positions sorted by id, four bits a pass: count digits block by block, sum the counts, move keys and positions.
#pragma once

#include "weft/ops/embedding/params.h"
#include "weft/tile/metal/radix.metal.h"

namespace weft {

struct Keys {
  uint at[kKeys];
  int count;
};
inline Keys load_keys(device const uint* keys, long first, long total) {
  Keys own;
  own.count = int(metal::clamp(total - first, 0l, long(kKeys)));
  for (int i = 0; i < own.count; ++i) own.at[i] = keys[first + i];
  return own;
}

}  // namespace weft

// Equation: counts[digit][block] = keys of the block with this digit.
// Layout:   keys [P], counts [16, blocks].
// Order:    integers; a threadgroup per block of 2048 keys.
// Requires: threadgroups of 256 threads.
// Traffic:  one read of keys.
kernel void count_digits(device const uint* keys [[buffer(0)]], device uint* counts [[buffer(1)]], constant weft::SortParams& p [[buffer(2)]],
                         uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup ushort before[weft::kDigits * weft::kSortThreads];
  threadgroup uint slots[8];
  const weft::Keys own = weft::load_keys(keys, long(group) * weft::kSortBlock + long(thread_index) * weft::kKeys, p.count);
  weft::rank_digits(weft::digit_counts(own.at, own.count, p.shift), thread_index, before, slots);
  if (int(thread_index) >= weft::kDigits) return;
  const long inside = metal::min(p.count - long(group) * weft::kSortBlock, long(weft::kSortBlock));
  const uint first = before[thread_index * weft::kSortThreads];
  const uint next = int(thread_index) + 1 < weft::kDigits ? before[(thread_index + 1) * weft::kSortThreads] : uint(inside);
  counts[long(thread_index) * p.blocks + group] = next - first;
}

// Equation: counts[i] = sum of counts[j] over j < i.
// Layout:   counts [16 blocks].
// Order:    integers; one threadgroup, a thread sums up consecutive ones.
// Requires: a threadgroup of 256 threads.
// Traffic:  two reads and one write of counts.
kernel void sum_counts(device uint* counts [[buffer(0)]], constant weft::SortParams& p [[buffer(1)]], uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup uint slots[8];
  const long total = weft::kDigits * p.blocks, run = (total + weft::kSortThreads - 1) / weft::kSortThreads;
  const long first = run * thread_index, last = metal::min(first + run, total);
  uint sum = 0;
  for (long i = first; i < last; ++i) sum += counts[i];
  uint running = weft::sum_before(sum, thread_index, slots);
  for (long i = first; i < last; ++i) {
    const uint here = counts[i];
    counts[i] = running;
    running += here;
  }
}

// Equation: the key at place i goes where all keys of lower digits, and those of its digit before it, leave off.
// Layout:   keys, positions [P] from and to, starts [16, blocks] as sum_counts leaves them.
// Order:    stable; a threadgroup per block of 2048 keys.
// Requires: threadgroups of 256 threads.
// Traffic:  one read and one write of keys and positions.
kernel void move_keys(device const uint* keys [[buffer(0)]], device const uint* positions [[buffer(1)]], device const uint* starts [[buffer(2)]],
                      device uint* keys_to [[buffer(3)]], device uint* positions_to [[buffer(4)]], constant weft::SortParams& p [[buffer(5)]],
                      uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup ushort before[weft::kDigits * weft::kSortThreads];
  threadgroup uint slots[8];
  const long first = long(group) * weft::kSortBlock + long(thread_index) * weft::kKeys;
  const weft::Keys own = weft::load_keys(keys, first, p.count);
  weft::rank_digits(weft::digit_counts(own.at, own.count, p.shift), thread_index, before, slots);
  ulong seen = 0;  // of each digit, among this thread's keys so far
  for (int i = 0; i < own.count; ++i) {
    const uint digit = weft::digit_of(own.at[i], p.shift), at = digit * weft::kSortThreads;
    const uint in_digit = uint(before[at + thread_index]) - uint(before[at]) + uint(seen >> (4 * digit) & 15);
    const long to = long(starts[long(digit) * p.blocks + group]) + in_digit;
    keys_to[to] = own.at[i];
    positions_to[to] = positions[first + i];
    seen += 1ul << (4 * digit);
  }
}
