// Operands of any strides as runs along one axis: axes that are contiguous in both operands are merged, and the
// run goes along the axis on which the written operand steps least, so that stores are close together.
#pragma once

#include <algorithm>

#include "weft/tile/cpu/kernel.h"

namespace weft::cpu {

// Element (i0, i1, ...) of the merged shape lies at sum(i from) in the one operand, sum(i to) in the other.
struct StridedPair {
  int rank = 0;  // at least 1 after merging; the last axis is the run
  int64_t extent[kMaxRank] = {}, from[kMaxRank] = {}, to[kMaxRank] = {};

  bool packed() const { return rank == 1 && (extent[0] <= 1 || (from[0] == 1 && to[0] == 1)); }
};

inline StridedPair merge_axes(const Shape& shape, const Strides& from, const Strides& to) {
  int order[kMaxRank], count = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1) order[count++] = axis;
  std::stable_sort(order, order + count, [&](int a, int b) { return to[a] > to[b]; });
  StridedPair pair;
  for (int i = 0; i < count; ++i) {
    const int axis = order[i], outer = pair.rank - 1;
    const bool merges = outer >= 0 && pair.from[outer] == from[axis] * shape[axis] && pair.to[outer] == to[axis] * shape[axis];
    const int at = merges ? outer : pair.rank++;
    pair.extent[at] = merges ? pair.extent[outer] * shape[axis] : shape[axis];
    pair.from[at] = from[axis];
    pair.to[at] = to[axis];
  }
  if (pair.rank == 0) pair.extent[pair.rank++] = 1;  // one element
  return pair;
}

// body(from offset, to offset, n) for every run of at most 32 Ki elements, in parallel. Offsets are in elements; the
// run's steps are from[rank - 1] and to[rank - 1].
template <class F>
void for_each_run(const Stream& stream, const StridedPair& pair, F&& body) {
  constexpr int64_t kLongest = 32768;
  const int last = pair.rank - 1;
  const int64_t columns = pair.extent[last], pieces = ceil_div(columns, kLongest);
  int64_t rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= pair.extent[axis];
  for_each_row_group(stream, rows * pieces, std::min(columns, kLongest), [&](int64_t first, int64_t end) {
    int64_t index[kMaxRank] = {}, row = first / pieces, from = 0, to = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      index[axis] = row % pair.extent[axis];
      row /= pair.extent[axis];
      from += index[axis] * pair.from[axis];
      to += index[axis] * pair.to[axis];
    }
    for (int64_t i = first, piece = first % pieces; i < end; ++i) {
      const int64_t start = piece * kLongest;
      body(from + start * pair.from[last], to + start * pair.to[last], std::min(kLongest, columns - start));
      if (++piece < pieces) continue;
      piece = 0;
      for (int axis = last - 1; axis >= 0; --axis) {  // the next row: count up from the innermost axis
        from += pair.from[axis];
        to += pair.to[axis];
        if (++index[axis] < pair.extent[axis]) break;
        from -= pair.extent[axis] * pair.from[axis];
        to -= pair.extent[axis] * pair.to[axis];
        index[axis] = 0;
      }
    }
  });
}

}  // namespace weft::cpu
