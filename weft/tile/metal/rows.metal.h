// Rows of a row op. A team of threads iterates over a row as often as the kernel needs while it is read from memory once: each thread
// holds its part in registers. A row too long for that (kChunks = 0) is read again in every iteration.
//
// Thread t of a team has the chunks t, t + size, ... of N elements. Where rows do not start at 16 bytes, and at a row's end,
// elements are moved one by one.
//
//   for (int k = 0; k < turns<N>(team, columns); ++k) {
//     const Span at = span<N>(team, k, columns);
//     if (at.count <= 0) continue;
//     const Chunk<T, N> piece = row.piece(x, k, at);
#pragma once

#include "weft/tile/metal/row_chunks.h"
#include "weft/tile/metal/team.metal.h"
#include "weft/tile/metal/vector.metal.h"

namespace weft {

constant int kChunks [[function_constant(0)]];    // of a row that a thread holds
constant bool kAligned [[function_constant(1)]];  // every row starts at 16 bytes

struct Span {
  int first, count;  // count <= 0: past the row's end
};

template <int N>
inline int turns(Team team, int columns) {
  return kChunks > 0 ? kChunks : (columns + team.size * N - 1) / (team.size * N);
}
template <int N>
inline Span span(Team team, int k, int columns) {
  const int first = (k * team.size + team.rank) * N, left = columns - first;
  return {first, left < N ? left : N};
}

template <class T, int N>
inline Chunk<T, N> get(device const T* row, Span at) {
  return load_chunk<T, N>(row + at.first, at.count, kAligned);
}
template <class T, int N>
inline void put(Chunk<T, N> piece, device T* row, Span at) {
  store_chunk<T, N>(piece, row + at.first, at.count, kAligned);
}

// A thread's part of a row, of at most M chunks; with more of them it is read from memory each time.
template <class T, int N, int M = kMostChunks>
struct Row {
  Chunk<T, N> held[M];

  void take(device const T* row, Team team, int columns) {
    if (kChunks <= M) take(row, team, columns, kChunks);
  }
  void take(device const T* row, Team team, int columns, int count) {
#pragma unroll
    for (int k = 0; k < count; ++k) held[k] = get<T, N>(row, span<N>(team, k, columns));
  }
  Chunk<T, N> piece(device const T* row, int k, Span at) const {
    if (kChunks > 0 && kChunks <= M) return held[k];
    return get<T, N>(row, at);
  }
};

}  // namespace weft
