// Sums over rows (weight and bias gradients) in an order that depends on the number of rows alone: rows fall into at
// most 64 chunks, each chunk adds its rows in order into its own partial row, and the partial rows are added in order.

#if defined(WEFT_TILE_CPU_ROW_CHUNKS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ROW_CHUNKS_H_
#undef WEFT_TILE_CPU_ROW_CHUNKS_H_
#else
#define WEFT_TILE_CPU_ROW_CHUNKS_H_
#endif

#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

struct RowChunks {
  static constexpr int64_t kMost = 64, kLeastRows = 16;

  int64_t rows, size, count;

  explicit RowChunks(int64_t rows_) : rows(rows_), size(std::max(kLeastRows, ceil_div(rows_, kMost))), count(ceil_div(rows_, size)) {}
  int64_t first(int64_t chunk) const { return chunk * size; }
  int64_t last(int64_t chunk) const { return std::min(rows, (chunk + 1) * size); }
};

// out[c] = sum over chunks, in order, of partial[chunk][c].
inline void sum_chunks(const Stream& stream, const float* partial, int64_t count, int64_t columns, float* out) {
  constexpr int64_t kColumns = 256;
  parallel_for(ceil_div(columns, kColumns), threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t first = task * kColumns, n = std::min(kColumns, columns - first);
    float* to = out + first;
    for_each_block(n, [=](At at) HWY_ATTR { at.store(zero(), to); });
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      const float* from = partial + chunk * columns + first;
      for_each_block(n, [=](At at) HWY_ATTR { at.store(at.load(to) + at.load(from), to); });
    }
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
