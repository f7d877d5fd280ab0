// Products of small f32 tiles in scratch memory: attention is made of these.
//
// C[m][n] (+)= sum over k of A(m, k) B[k][n]: A is broadcast element by element, so it may be read along rows or columns
// at no cost (a transposed A is a swap of its strides), and B and C are rows of sixteen-float blocks. Each element of C
// is one chain of fused multiply-adds over k in order, so its bits depend neither on the register blocking nor on the
// instruction set. Words of two bf16 (pairs.h) are multiplied likewise: a step is then a word, two k.
//
// On the diagonal of causal attention half of a tile is not there: triangle products leave those terms out, rather than
// multiplying by zero, for 0 * NaN would spoil the sum.

#if defined(WEFT_TILE_CPU_TILE_PRODUCT_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_TILE_PRODUCT_H_
#undef WEFT_TILE_CPU_TILE_PRODUCT_H_
#else
#define WEFT_TILE_CPU_TILE_PRODUCT_H_
#endif

#include "weft/tile/cpu/fetch_ahead.h"
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
struct TileProductBy {
  int64_t m, n, k;        // n is a multiple of 16; k counts steps
  const float* a;         // f32, or words as their bits, and those wherever bf16 lie
  int64_t a_row, a_step;  // A(m, k) = a[m a_row + k a_step]
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;                         // to what C holds; else C is overwritten
  const float* factor = nullptr;    // [m]: what C holds is multiplied by its row's factor first
  FetchAhead* meanwhile = nullptr;  // asked for between register blocks
};
using TileProduct = TileProductBy<FusedStep>;

HWY_INLINE F32x16 lane_numbers() {
  alignas(64) static constexpr float kNumbers[kBlock] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// Which steps row m of a triangle takes: k <= m, or k >= m.
enum class Steps { through_row, from_row };

// kRows rows by kBlocks blocks of C, at row m and column n, held in registers.
template <int kRows, int kBlocks, class Step>
struct SumsInRegisters {
  const TileProductBy<Step>& t;
  const int64_t m, n;
  F32x16 sum[kRows][kBlocks];

  HWY_INLINE SumsInRegisters(const TileProductBy<Step>& product, int64_t row, int64_t column) : t(product), m(row), n(column) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) {
      sum[r][j] = t.add ? load(c(r, j)) : zero();
      if (t.factor) sum[r][j] = sum[r][j] * splat(t.factor[m + r]);
    }
  }
  HWY_INLINE float* c(int r, int j) const { return t.c + (m + r) * t.c_row + n + j * kBlock; }

  // Step k of the rows [first, last), with all of both factors or the halves of their words that `part` leaves.
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
  // The steps of a triangle from m to m + kRows, each without the rows that do not take it. Of a word on the diagonal one row
  // takes half: the even one its even k, where those through the row are taken, or the odd one its odd k. m is even then.
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
    const int64_t row = t.c_row;  // not looked up again after each store
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) store(sum[r][j], to + r * row + j * kBlock);
  }
};

// Rows that a panel goes on with when fewer than kRows are left.
constexpr int fewer(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows - 1; }

template <int kRows, int kBlocks, class Step>
void product_panel(const TileProductBy<Step>& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.meanwhile) t.meanwhile->some();
    SumsInRegisters<kRows, kBlocks, Step> c(t, m, n);
    c.steps(0, t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) product_panel<fewer(kRows), kBlocks>(t, n, m);
}

// Register blocks. With 32 registers of 16 lanes: 24 sums, up to 4 blocks of B and one of A, in the shape that the
// columns leave (6 x 4 takes ten loads for 24 fused operations; the fewer columns, the more it is bound by its loads). With 16 registers of
// 8 lanes: 6 x 1 blocks (12 sums, 2 of B, 1 of A) fill the file.
template <class Step>
void product(const TileProductBy<Step>& t) {
  int64_t n = 0;
  if constexpr (kParts == 1) {
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) product_panel<6, 4>(t, n);
    if (t.n - n == 3 * kBlock) return product_panel<8, 3>(t, n);
    if (t.n - n == 2 * kBlock) return product_panel<12, 2>(t, n);
    if (t.n - n == kBlock) product_panel<16, 1>(t, n);
  } else {
    for (; n < t.n; n += kBlock) product_panel<6, 1>(t, n);
  }
}

inline void product(const TileProduct& t) { product<FusedStep>(t); }

template <Steps kWhich, int kRows, int kBlocks, class Step>
void triangle_panel(const TileProductBy<Step>& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.meanwhile) t.meanwhile->some();
    SumsInRegisters<kRows, kBlocks, Step> c(t, m, n);
    if (kWhich == Steps::through_row) c.steps(0, m / Step::kElements);
    c.template corner_steps<kWhich>();
    if (kWhich == Steps::from_row) c.steps(ceil_div(m + kRows, Step::kElements), t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) triangle_panel<kWhich, fewer(kRows), kBlocks>(t, n, m);
}

// The product on one side of the diagonal of A, for as many k as rows.
template <Steps kWhich, class Step>
void triangle_product(const TileProductBy<Step>& t) {
  int64_t n = 0;
  if constexpr (kParts == 1)
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) triangle_panel<kWhich, 6, 4>(t, n);
  for (; n < t.n; n += kBlock) triangle_panel<kWhich, kParts == 1 ? 8 : 6, 1>(t, n);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
