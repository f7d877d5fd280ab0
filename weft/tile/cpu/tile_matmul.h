// Matmuls of small f32 tiles in scratch memory, of which attention consists.
//
// C[m][n] (+)= sum over k of A(m, k) B[k][n]: A is broadcast element by element, so it may be read along rows or columns
// at no cost (a transposed A is a swap of its strides), and B and C have rows of 16-float blocks. Each element of C
// is one chain of fused multiply-adds over k in order, so its bits depend neither on the register blocking nor on the
// instruction set. Words of two bf16 (pairs.h) are multiplied the same way: a step is then a word, two k.
//
// On the diagonal of causal attention half of a tile is masked: triangle matmuls leave those terms out instead of multiplying by zero,
// since 0 * NaN would spoil the sum.

#if defined(WEFT_TILE_CPU_TILE_MATMUL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_TILE_MATMUL_H_
#undef WEFT_TILE_CPU_TILE_MATMUL_H_
#else
#define WEFT_TILE_CPU_TILE_MATMUL_H_
#endif

#include "weft/tile/cpu/prefetch_queue.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// One step of a sum.
struct FusedStep {
  static constexpr int kElements = 1;  // k of a step
  static HWY_INLINE F32x16 add(F32x16 a, F32x16 b, F32x16 sum) { return fma(a, b, sum); }
};

template <class Step>
struct TileMatmulBy {
  int64_t m, n, k;        // n is a multiple of 16; k counts steps
  const float* a;         // f32, or words as their bits, as aligned as bf16 is
  int64_t a_row, a_step;  // A(m, k) = a[m a_row + k a_step]
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;                           // adds to C; else C is overwritten
  const float* factor = nullptr;      // [m]: each row of C is multiplied by its factor first
  PrefetchQueue* prefetch = nullptr;  // some of it between register blocks
};
using TileMatmul = TileMatmulBy<FusedStep>;

HWY_INLINE F32x16 lane_numbers() {
  alignas(64) static constexpr float kNumbers[kBlock] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// The steps of row m of a triangle: k <= m, or k >= m.
enum class Steps { through_row, from_row };

// kRows rows by kBlocks blocks of C, at row m and column n, held in registers.
template <int kRows, int kBlocks, class Step>
struct SumsInRegisters {
  const TileMatmulBy<Step>& t;
  const int64_t m, n;
  F32x16 sum[kRows][kBlocks];

  HWY_INLINE SumsInRegisters(const TileMatmulBy<Step>& product, int64_t row, int64_t column) : t(product), m(row), n(column) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) {
      sum[r][j] = t.add ? load(c(r, j)) : zero();
      if (t.factor) sum[r][j] = sum[r][j] * splat(t.factor[m + r]);
    }
  }
  HWY_INLINE float* c(int r, int j) const { return t.c + (m + r) * t.c_row + n + j * kBlock; }

  // Step k of the rows [first, last). part: both factors whole, or one half of their words.
  template <class Part>
  HWY_INLINE void step(int64_t k, int first, int last, Part part) {
    const float* a = t.a + m * t.a_row + k * t.a_step;
    const float* b = t.b + k * t.b_row + n;
    F32x16 columns[kBlocks];
    HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) columns[j] = part(load(b + j * kBlock));
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      if (r < first || r >= last) continue;
      float element;
      std::memcpy(&element, a + r * t.a_row, sizeof element);
      const F32x16 s = part(splat(element));
      HWY_UNROLL(4)
      for (int j = 0; j < kBlocks; ++j) sum[r][j] = Step::add(s, columns[j], sum[r][j]);
    }
  }
  HWY_INLINE void step(int64_t k, int first, int last) {
    step(k, first, last, [](F32x16 x) HWY_ATTR { return x; });
  }
  HWY_INLINE void steps(int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) step(k, 0, kRows);
  }
  // The steps of a triangle from m to m + kRows, each without the rows that do not take it. One row takes half of a word on the diagonal:
  // with through_row the even row its even k, with from_row the odd row its odd k. m is even then.
  template <Steps kWhich>
  HWY_INLINE void corner_steps() {
    if constexpr (Step::kElements == 1) {
      HWY_UNROLL(16)
      for (int k = 0; k < kRows; ++k) kWhich == Steps::through_row ? step(m + k, k, kRows) : step(m + k, 0, k + 1);
    } else {
      HWY_UNROLL(8)
      for (int even = 0; even < kRows; even += 2) {
        const int64_t word = (m + even) / 2;
        if (kWhich == Steps::through_row) {
          step(word, even, even + 1, [](F32x16 x) HWY_ATTR { return Step::even_only(x); });
          step(word, even + 1, kRows);
        } else {
          step(word, 0, even + 1);
          step(word, even + 1, std::min(even + 2, kRows), [](F32x16 x) HWY_ATTR { return Step::odd_only(x); });
        }
      }
    }
  }
  HWY_INLINE void store_all() const {
    float* to = c(0, 0);
    const int64_t row = t.c_row;  // in a register: else it would be loaded again after each store
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) store(sum[r][j], to + r * row + j * kBlock);
  }
};

// Height of the next register blocks if fewer than `rows` rows remain.
constexpr int fewer(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows - 1; }

template <int kRows, int kBlocks, class Step>
void matmul_panel(const TileMatmulBy<Step>& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.prefetch) t.prefetch->some();
    SumsInRegisters<kRows, kBlocks, Step> c(t, m, n);
    c.steps(0, t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) matmul_panel<fewer(kRows), kBlocks>(t, n, m);
}

// Register blocks. With 32 registers of 16 lanes: 24 sums, up to 4 blocks of B and one of A, in the shape that the
// columns leave (6 x 4 takes ten loads for 24 fused operations; the fewer columns, the more it is bound by its loads). With 16 registers of
// 8 lanes: 6 x 1 blocks (12 sums, 2 of B, 1 of A) fill the file.
template <class Step>
void tile_matmul(const TileMatmulBy<Step>& t) {
  int64_t n = 0;
  if constexpr (kParts == 1) {
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) matmul_panel<6, 4>(t, n);
    if (t.n - n == 3 * kBlock) return matmul_panel<8, 3>(t, n);
    if (t.n - n == 2 * kBlock) return matmul_panel<12, 2>(t, n);
    if (t.n - n == kBlock) matmul_panel<16, 1>(t, n);
  } else {
    for (; n < t.n; n += kBlock) matmul_panel<6, 1>(t, n);
  }
}

inline void tile_matmul(const TileMatmul& t) { tile_matmul<FusedStep>(t); }

template <Steps kWhich, int kRows, int kBlocks, class Step>
void triangle_panel(const TileMatmulBy<Step>& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.prefetch) t.prefetch->some();
    SumsInRegisters<kRows, kBlocks, Step> c(t, m, n);
    if (kWhich == Steps::through_row) c.steps(0, m / Step::kElements);
    c.template corner_steps<kWhich>();
    if (kWhich == Steps::from_row) c.steps(ceil_div(m + kRows, Step::kElements), t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) triangle_panel<kWhich, fewer(kRows), kBlocks>(t, n, m);
}

// The matmul on one side of the diagonal of A, for as many k as rows.
template <Steps kWhich, class Step>
void triangle_matmul(const TileMatmulBy<Step>& t) {
  int64_t n = 0;
  if constexpr (kParts == 1)
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) triangle_panel<kWhich, 6, 4>(t, n);
  for (; n < t.n; n += kBlock) triangle_panel<kWhich, kParts == 1 ? 8 : 6, 1>(t, n);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
