// Positions sorted by id, a segment of them at a time: a segment is sorted within one threadgroup's memory, so that ids are read once
// and two bytes a position written.
#pragma once

#include "weft/ops/embedding/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/radix.metal.h"

namespace weft {

// A word is an id above a position within the segment.
template <class Word>
inline int lower_bound(threadgroup const Word* words, int count, Word id) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (words[middle] >> kPositionBits < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace weft

// Equation: order = the positions of each segment sorted by id, within the segment; starts[s][i] = the place in segment s where ids
//           from i on begin; chunk_ids = the id of every 512 places that have one, else 2^32 - 1.
// Layout:   ids, order [P], starts [segments, V + 1], chunk_ids [P / 512].
// Order:    integers, stable; a threadgroup per segment of p.segment positions.
// Requires: 256 threads; 24 KiB of threadgroup memory. Word is uint with segments of 4096 where V < 2^20, or ulong with 2048. An id outside
//           [0, V) is reported, sorted last and left out.
// Traffic:  one read of ids, one write of the others.
template <class Id, class Word>
[[max_total_threads_per_threadgroup(256)]]
kernel void sort_segments(device const Id* ids [[buffer(0)]], device ushort* order [[buffer(1)]], device ushort* starts [[buffer(2)]],
                          device uint* chunk_ids [[buffer(3)]], constant weft::EmbeddingBackwardParams& p [[buffer(4)]],
                          device weft::Fault& fault [[buffer(5)]], uint thread_index [[thread_index_in_threadgroup]],
                          uint group [[threadgroup_position_in_grid]]) {
  constexpr int kSegment = 16384 / int(sizeof(Word)), kThreads = weft::kSortThreads, kBits = weft::kPositionBits, kChunk = weft::kChunk;
  threadgroup Word words[kSegment];
  threadgroup ushort before[weft::kDigits * kThreads];
  threadgroup uint slots[kThreads / 32];
  const long first = long(group) * kSegment;
  const int count = int(metal::min(p.positions - first, long(kSegment)));
  for (int i = int(thread_index); i < count; i += kThreads) {
    const long id = long(ids[first + i]);
    const bool inside = id >= 0 && id < p.table;
    if (!inside) weft::report(fault, weft::metal_fault::id_out_of_range, id, first + i, p.table);
    words[i] = Word(inside ? id : p.table) << kBits | Word(i);
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  weft::sort_words<kSegment / kThreads, Word>(words, count, kBits, kBits + p.bits, weft::SortSpace{before, slots}, thread_index);
  for (int i = int(thread_index); i < count; i += kThreads) order[first + i] = ushort(words[i] & Word((1 << kBits) - 1));
  for (long id = thread_index; id <= p.table; id += kThreads)
    starts[group * (p.table + 1) + id] = ushort(weft::lower_bound(words, count, Word(id)));
  for (int chunk = int(thread_index); chunk < count / kChunk; chunk += kThreads) {
    const Word id = words[chunk * kChunk] >> kBits, last = words[chunk * kChunk + kChunk - 1] >> kBits;
    chunk_ids[first / kChunk + chunk] = id == last ? uint(id) : 0xffffffffu;
  }
}
