// The sum of e^x over part of a row, relative to its largest x, and how parts are merged.
#pragma once

#include "weft/tile/metal/rows.metal.h"

namespace weft {

struct ExpSum {
  float most, sum;  // sum of e^(x - most)
};
inline ExpSum no_exp_sum() { return {-INFINITY, 0.0f}; }

// Adds the first `count` of a chunk, scaled; the sum so far is rescaled to the new maximum. While all is -infinity each term
// is 0; a NaN or +infinity makes the sum NaN.
template <class T, int N>
inline void add_exp(thread ExpSum& e, Chunk<T, N> piece, int count, float scale) {
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) most = metal::fmax(most, piece[i] * scale);
  if (most > e.most) {  // rare after the first few
    e.sum *= metal::precise::exp(e.most - most);
    e.most = most;
  }
  const float base = e.most == -INFINITY ? 0.0f : e.most;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) e.sum += metal::precise::exp(piece[i] * scale - base);
}

// The sum over a team's parts, relative to m, the row's maximum (0 where that is -infinity). Every thread calls this.
struct RowExpSum {
  float top, m, sum;  // top: the maximum as it is
};
inline RowExpSum sum_over(thread Team& team, ExpSum mine) {
  const float top = team.reduce<Max>(mine.most), m = top == -INFINITY ? 0.0f : top;
  return {top, m, team.sum(mine.most == -INFINITY ? mine.sum : mine.sum * metal::precise::exp(mine.most - m))};
}

// The same for a row of which each thread holds its part: the maximum first, then one sum.
template <class T, int N, int M>
inline RowExpSum sum_of_held(thread Team& team, thread const Row<T, N, M>& row, int columns, float scale) {
  float most = -INFINITY, sum = 0;
  for (int k = 0; k < kChunks; ++k) {
    const Span at = span<N>(team, k, columns);
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < at.count) most = metal::fmax(most, row.held[k][i] * scale);
  }
  const float top = team.reduce<Max>(most), m = top == -INFINITY ? 0.0f : top;
  for (int k = 0; k < kChunks; ++k) {
    const Span at = span<N>(team, k, columns);
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < at.count) sum += metal::precise::exp(row.held[k][i] * scale - m);
  }
  return {top, m, team.sum(sum)};
}

// Of a row of which each thread has taken all (kChunks > 0), or the first `kept` chunks of its part and reads the others now.
template <class T, int N, int M>
inline RowExpSum exp_sum(thread Team& team, thread const Row<T, N, M>& row, device const T* from, int columns, float scale, int kept) {
  if (kChunks > 0) return sum_of_held<T, N, M>(team, row, columns, scale);
  ExpSum mine = no_exp_sum();
  for (int k = 0; k < kept; ++k) add_exp<T, N>(mine, row.held[k], span<N>(team, k, columns).count, scale);
  for (int k = kept; k < turns<N>(team, columns); ++k) {
    const Span at = span<N>(team, k, columns);
    if (at.count > 0) add_exp<T, N>(mine, get<T, N>(from, at), at.count, scale);
  }
  return sum_over(team, mine);
}

}  // namespace weft
