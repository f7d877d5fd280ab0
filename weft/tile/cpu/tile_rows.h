// Tiles in scratch memory: loading and storing rows of f32 or bf16, transposing, folding.

#if defined(WEFT_TILE_CPU_TILE_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_TILE_ROWS_H_
#undef WEFT_TILE_CPU_TILE_ROWS_H_
#else
#define WEFT_TILE_CPU_TILE_ROWS_H_
#endif

#include <hwy/cache_control.h>

#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// a < b ? b : a. On x86 the max instruction does that, NaN and zeros included.
HWY_INLINE F32x16 larger(F32x16 a, F32x16 b) {
#if HWY_ARCH_X86
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Max(b.part[i], a.part[i]);
  return a;
#else
  return select(a < b, b, a);
#endif
}

// Squares are transposed in pairs of four rows: registers of eight hold rows r and r + 4 side by side (two loads, which
// is where the exchange of halves is free), then both halves are transposed as squares of four.
using DPair = hn::CappedTag<float, 8>;
inline constexpr int kSquare = int(HWY_LANES(float) < 8 ? 4 : 8);

template <class T>  // registers of four do not instantiate the first branch
HWY_INLINE hn::Vec<DPair> load_pair(const T* low, const T* high) {
  const hn::FixedTag<float, 4> four;
  if constexpr (kSquare == 8)
    return hn::Combine(DPair(), hn::LoadU(four, high), hn::LoadU(four, low));
  else
    return hn::LoadU(DPair(), low);
}

// Columns c .. c + 3 of kSquare rows, to four rows of kSquare.
HWY_INLINE void transpose_square(const float* from, int64_t from_row, hn::Vec<DPair> scale, float* to, int64_t to_row) {
  const DPair d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<DPair>> wide;
  const auto lower = [&](auto a, auto b)
                         HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b))); };
  const auto upper = [&](auto a, auto b)
                         HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b))); };
  const auto row = [&](int r) HWY_ATTR { return hn::Mul(load_pair(from + r * from_row, from + (r + 4) * from_row), scale); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
  const auto high01 = hn::InterleaveUpper(d, r0, r1), high23 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(lower(low01, low23), d, to);
  hn::StoreU(upper(low01, low23), d, to + to_row);
  hn::StoreU(lower(high01, high23), d, to + 2 * to_row);
  hn::StoreU(upper(high01, high23), d, to + 3 * to_row);
}

// to[c][r] = scale from[r][c]; rows and columns are multiples of 8.
inline void transpose(int64_t rows, int64_t columns, const float* from, int64_t from_row, float scale, float* to, int64_t to_row) {
  const auto factor = hn::Set(DPair(), scale);
  for (int64_t r = 0; r < rows; r += kSquare)
    for (int64_t c = 0; c < columns; c += 4) transpose_square(from + r * from_row + c, from_row, factor, to + c * to_row + r, to_row);
}

// The tree of sum() for several blocks at once: each step adds the halves of two vectors, so that four steps reduce sixteen blocks to
// one of their sums. In groups of lanes, a step makes
//   [a a' ], [b b' ] of 16    -> [a + a', b + b'] of 8
//   [a a' b b'], [c c' d d']  -> [a + a', c + c', b + b', d + d'] of 4
//   pairs of each four        -> [a + a', b + b'] of 2, in each group of four
//   lanes of each pair        -> [a, c, b, d] of [a a' b b'], [c c' d d'] in each group of four
HWY_INLINE F32x16 fold_to_eights(F32x16 a, F32x16 b) {
  F32x16 r;
  if constexpr (kParts == 1) {
    r.part[0] = hn::Add(hn::ConcatLowerLower(D(), b.part[0], a.part[0]), hn::ConcatUpperUpper(D(), b.part[0], a.part[0]));
  } else {
    constexpr int kHalf = kParts / 2;
    for (int i = 0; i < kHalf; ++i) {
      r.part[i] = hn::Add(a.part[i], a.part[i + kHalf]);
      r.part[i + kHalf] = hn::Add(b.part[i], b.part[i + kHalf]);
    }
  }
  return r;
}
HWY_INLINE F32x16 fold_to_fours(F32x16 a, F32x16 b) {
  F32x16 r;
  if constexpr (kParts == 4) {
    for (int i = 0; i < kParts; i += 2) {
      r.part[i] = hn::Add(a.part[i], a.part[(i + 1) % kParts]);
      r.part[(i + 1) % kParts] = hn::Add(b.part[i], b.part[(i + 1) % kParts]);
    }
  } else {
    for (int i = 0; i < kParts; ++i)
      r.part[i] = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b.part[i]), a.part[i]),
                          hn::OddEvenBlocks(b.part[i], hn::SwapAdjacentBlocks(a.part[i])));
  }
  return r;
}
HWY_INLINE F32x16 fold_to_twos(F32x16 a, F32x16 b) {
  const hn::RepartitionToWide<DU> wide;
  for (int i = 0; i < kParts; ++i) {
    const auto x = hn::BitCast(wide, a.part[i]), y = hn::BitCast(wide, b.part[i]);
    a.part[i] = hn::Add(hn::BitCast(D(), hn::InterleaveLower(wide, x, y)), hn::BitCast(D(), hn::InterleaveUpper(wide, x, y)));
  }
  return a;
}
HWY_INLINE F32x16 fold_to_ones(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i)
    a.part[i] = hn::Add(hn::OddEven(hn::Shuffle2301(b.part[i]), a.part[i]), hn::OddEven(b.part[i], hn::Shuffle2301(a.part[i])));
  return a;
}

// Sixteen blocks [16][16] to their sixteen sums, each by the tree of sum(): lane r is the sum of block r.
HWY_INLINE F32x16 sums_of_blocks(const float* blocks) {
  const auto block = [&](int i) HWY_ATTR { return load(blocks + i * kBlock); };
  const auto four = [&](int i) HWY_ATTR {
    return fold_to_fours(fold_to_eights(block(i), block(i + 8)), fold_to_eights(block(i + 4), block(i + 12)));
  };
  return fold_to_ones(fold_to_twos(four(0), four(2)), fold_to_twos(four(1), four(3)));
}

// Prefetches rows: the hardware prefetcher does not recognize short rows far apart.
template <class T>
HWY_INLINE void prefetch_rows(const T* from, int64_t from_row, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, from += from_row)
    for (int64_t c = 0; c < columns; c += int64_t(64 / sizeof(T))) hwy::Prefetch(from + c);
}

// Rows of f32 or bf16, times `scale`, into a tile whose rows are `columns` rounded up to 16, zeros in the padding; then
// zero rows up to `padded` rows.
template <class T>
void load_tile(const T* from, int64_t from_row, int64_t rows, int64_t columns, int64_t padded, float scale, float* tile) {
  const int64_t width = ceil_div(columns, kBlock) * kBlock;
  for (int64_t r = 0; r < rows; ++r)
    for_each_block(columns, [&](At at) HWY_ATTR { store(at.load(from + r * from_row) * splat(scale), tile + r * width + at.i); });
  std::fill(tile + rows * width, tile + padded * width, 0.0f);
}

// Stores a tile, rounded to T.
template <class T>
void store_tile(const float* tile, int64_t rows, int64_t columns, float scale, T* to, int64_t to_row) {
  const int64_t width = ceil_div(columns, kBlock) * kBlock;
  for (int64_t r = 0; r < rows; ++r)
    for_each_block(columns, [&](At at) HWY_ATTR { at.store(load(tile + r * width + at.i) * splat(scale), to + r * to_row); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
