// Batches of a few rows. A kernel that needs a statistic of a row before it can write the row computes it for all rows of a batch first,
// so that the serial part (folding lanes, roots, quotients: a chain of some hundred cycles) overlaps with the sums of the next row. A
// batch stays in L1; the result of a row does not depend on its batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace weft::cpu {

inline constexpr int64_t kBatchRows = 4, kBatchElements = 4096;

constexpr int64_t batch_rows(int64_t columns) { return std::clamp<int64_t>(kBatchElements / std::max<int64_t>(columns, 1), 1, kBatchRows); }

// body(row, rows) for batches of [first, last), in order.
template <class F>
void for_each_batch(int64_t first, int64_t last, int64_t columns, F body) {
  const int64_t rows = batch_rows(columns);
  for (int64_t r = first; r < last; r += rows) body(r, std::min(rows, last - r));
}

// body(N, row) for rows [first, first + rows) in pairs, and a last odd one alone: two rows share the loads of a weight and of a gradient
// that both add to. N is an integral_constant.
template <class F>
void for_each_pair(int64_t first, int64_t rows, F body) {
  int64_t k = 0;
  for (; k + 2 <= rows; k += 2) body(std::integral_constant<int, 2>(), first + k);
  if (k < rows) body(std::integral_constant<int, 1>(), first + k);
}

// body(flag) with the flag as a compile-time constant: loops have no branch on it.
template <class F>
void with_constant(bool flag, F body) {
  flag ? body(std::true_type()) : body(std::false_type());
}

}  // namespace weft::cpu
