// Products of small f32 tiles in scratch memory, and what goes with them: attention is made of these.
//
// C[m][n] (+)= sum over k of A(m, k) B[k][n]: A is broadcast element by element, so it may be read along rows or columns
// at no cost (a transposed A is a swap of its strides), and B and C are rows of sixteen-float blocks. Each element of C
// is one chain of fused multiply-adds over k in order, so its bits depend neither on the register blocking nor on the
// instruction set.

#if defined(WEFT_TILE_CPU_TILE_PRODUCT_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_TILE_PRODUCT_H_
#undef WEFT_TILE_CPU_TILE_PRODUCT_H_
#else
#define WEFT_TILE_CPU_TILE_PRODUCT_H_
#endif

#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

struct TileProduct {
  int64_t m, n, k;  // n is a multiple of 16
  const float* a;
  int64_t a_row, a_step;  // A(m, k) = a[m a_row + k a_step]
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;  // to what C holds; else C is overwritten
};

// Which of sixteen lanes take part in step k: all, or one triangle of a 16 by 16 tile. The others are left alone, not
// given a product with zero: 0 * NaN would spoil them.
enum class Lanes { all, from_k, through_k };

HWY_INLINE F32x16 lane_numbers() {
  alignas(64) static constexpr float kNumbers[kBlock] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// kRows rows by kBlocks blocks of C, held in registers over all k.
template <int kRows, int kBlocks, Lanes kWhich>
HWY_INLINE void product_in_registers(const TileProduct& t, int64_t m, int64_t n) {
  F32x16 acc[kRows][kBlocks];
  float* c = t.c + m * t.c_row + n;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kBlocks; ++j) acc[r][j] = t.add ? load(c + r * t.c_row + j * kBlock) : zero();
  const float *a = t.a + m * t.a_row, *b = t.b + n;
  const F32x16 lane = lane_numbers();
  for (int64_t k = 0; k < t.k; ++k, a += t.a_step, b += t.b_row) {
    F32x16 row[kBlocks];
#pragma GCC unroll 4
    for (int j = 0; j < kBlocks; ++j) row[j] = load(b + j * kBlock);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32x16 s = splat(a[r * t.a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kBlocks; ++j) {
        if constexpr (kWhich == Lanes::all) acc[r][j] = fma(s, row[j], acc[r][j]);
        if constexpr (kWhich == Lanes::from_k) acc[r][j] = select(lane < splat(float(k)), acc[r][j], fma(s, row[j], acc[r][j]));
        if constexpr (kWhich == Lanes::through_k) acc[r][j] = select(lane < splat(float(k + 1)), fma(s, row[j], acc[r][j]), acc[r][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kBlocks; ++j) store(acc[r][j], c + r * t.c_row + j * kBlock);
}

// The `left` < kRows rows that remain from m on.
template <int kRows, int kBlocks, Lanes kWhich>
void product_rest(const TileProduct& t, int64_t m, int64_t n, int64_t left) {
  if constexpr (kRows > 1) {
    if (left == kRows - 1)
      product_in_registers<kRows - 1, kBlocks, kWhich>(t, m, n);
    else
      product_rest<kRows - 1, kBlocks, kWhich>(t, m, n, left);
  }
}

template <int kRows, int kBlocks, Lanes kWhich>
void product_panel(const TileProduct& t, int64_t n) {
  int64_t m = 0;
  for (; m + kRows <= t.m; m += kRows) product_in_registers<kRows, kBlocks, kWhich>(t, m, n);
  product_rest<kRows, kBlocks, kWhich>(t, m, n, t.m - m);
}

// Register blocks. With 32 registers of 16 lanes: 24 sums, up to 4 blocks of B and one of A, in the shape that the
// columns leave (6 x 4 takes ten loads for 24 fused operations, 12 x 1 is bound by its loads). With 16 registers of
// 8 lanes: 6 x 1 blocks (12 sums, 2 of B, 1 of A) fill the file.
inline void product(const TileProduct& t) {
  int64_t n = 0;
  if constexpr (kParts == 1) {
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) product_panel<6, 4, Lanes::all>(t, n);
    if (t.n - n == 3 * kBlock) return product_panel<8, 3, Lanes::all>(t, n);
    if (t.n - n == 2 * kBlock) return product_panel<12, 2, Lanes::all>(t, n);
    if (t.n - n == kBlock) product_panel<12, 1, Lanes::all>(t, n);
  } else {
    for (; n < t.n; n += kBlock) product_panel<6, 1, Lanes::all>(t, n);
  }
}

// One triangle: n = 16 and k at most 16.
template <Lanes kWhich>
void triangle_product(const TileProduct& t) {
  product_panel<kParts == 1 ? 12 : 4, 1, kWhich>(t, 0);
}

// to[c][r] = from[r][c], in squares of four: rows and columns are multiples of 4.
inline void transpose(int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to, int64_t to_row) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto lower = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto upper = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (int64_t r = 0; r < rows; r += 4)
    for (int64_t c = 0; c < columns; c += 4) {
      const float* at = from + r * from_row + c;
      const auto r0 = hn::LoadU(d, at), r1 = hn::LoadU(d, at + from_row);
      const auto r2 = hn::LoadU(d, at + 2 * from_row), r3 = hn::LoadU(d, at + 3 * from_row);
      const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
      const auto high01 = hn::InterleaveUpper(d, r0, r1), high23 = hn::InterleaveUpper(d, r2, r3);
      float* out = to + c * to_row + r;
      hn::StoreU(lower(low01, low23), d, out);
      hn::StoreU(upper(low01, low23), d, out + to_row);
      hn::StoreU(lower(high01, high23), d, out + 2 * to_row);
      hn::StoreU(upper(high01, high23), d, out + 3 * to_row);
    }
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

// The way back, rounding to T.
template <class T>
void store_tile(const float* tile, int64_t rows, int64_t columns, float scale, T* to, int64_t to_row) {
  const int64_t width = ceil_div(columns, kBlock) * kBlock;
  for (int64_t r = 0; r < rows; ++r)
    for_each_block(columns, [&](At at) HWY_ATTR { at.store(load(tile + r * width + at.i) * splat(scale), to + r * to_row); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
