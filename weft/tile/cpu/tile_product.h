// Products of small f32 tiles in scratch memory: attention is made of these.
//
// C[m][n] (+)= sum over k of A(m, k) B[k][n]: A is broadcast element by element, so it may be read along rows or columns
// at no cost (a transposed A is a swap of its strides), and B and C are rows of sixteen-float blocks. Each element of C
// is one chain of fused multiply-adds over k in order, so its bits depend neither on the register blocking nor on the
// instruction set.
//
// On the diagonal of causal attention half of a tile is not there: the triangle products leave those terms out, rather
// than multiplying by zero, for 0 * NaN would spoil the sum.

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

template <class T>
struct TileProductWith {
  int64_t m, n, k;  // n is a multiple of 16
  const float* a;
  int64_t a_row, a_step;  // A(m, k) = a[m a_row + k a_step]
  const T* b;             // f32, or bf16 that is widened on its way into a register
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;                         // to what C holds; else C is overwritten
  const float* factor = nullptr;    // [n]: what C holds is multiplied by its column's factor first
  FetchAhead* meanwhile = nullptr;  // asked for between register blocks
};
using TileProduct = TileProductWith<float>;

HWY_INLINE F32x16 lane_numbers() {
  alignas(64) static constexpr float kNumbers[kBlock] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// Which columns take part in step k of a triangle: those from column k on, or those up to column k.
enum class Lanes { from_k, through_k };

template <Lanes kWhich>
HWY_INLINE Mask16 lanes_seen(int64_t k) {
  return kWhich == Lanes::from_k ? splat(float(k - 1)) < lane_numbers() : lane_numbers() < splat(float(k + 1));
}

// a * b + c in the lanes of the mask, c in the others.
HWY_INLINE F32x16 fma_where(Mask16 m, F32x16 a, F32x16 b, F32x16 c) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return {{V{_mm512_mask3_fmadd_ps(a.part[0].raw, b.part[0].raw, c.part[0].raw, m.part[0].raw)}}};  // one instruction, where a selection would be a second
#else
  return select(m, fma(a, b, c), c);
#endif
}

// kRows rows by kBlocks blocks of C, at row m and column n, held in registers.
template <int kRows, int kBlocks, class T = float>
struct SumsInRegisters {
  const TileProductWith<T>& t;
  const int64_t m, n;
  F32x16 sum[kRows][kBlocks];

  HWY_INLINE SumsInRegisters(const TileProductWith<T>& product, int64_t row, int64_t column) : t(product), m(row), n(column) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r)
      HWY_UNROLL(4)
      for (int j = 0; j < kBlocks; ++j) {
        sum[r][j] = t.add ? load(c(r, j)) : zero();
        if (t.factor) sum[r][j] = sum[r][j] * load(t.factor + n + j * kBlock);
      }
  }
  HWY_INLINE float* c(int r, int j) const { return t.c + (m + r) * t.c_row + n + j * kBlock; }

  // sum = term(sum, a, b), for the rows from `row` on.
  template <class F>
  HWY_INLINE void step(int64_t k, int row, F term) {
    const float* a = t.a + m * t.a_row + k * t.a_step;
    const T* b = t.b + k * t.b_row + n;
    F32x16 columns[kBlocks];
    HWY_UNROLL(4)
    for (int j = 0; j < kBlocks; ++j) columns[j] = load(b + j * kBlock);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      if (r < row) continue;
      const F32x16 s = splat(a[r * t.a_row]);
      HWY_UNROLL(4)
      for (int j = 0; j < kBlocks; ++j) sum[r][j] = term(sum[r][j], s, columns[j]);
    }
  }
  HWY_INLINE void steps(int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) step(k, 0, [](F32x16 c, F32x16 a, F32x16 b) HWY_ATTR { return fma(a, b, c); });
  }
  // The steps [first, last), at most sixteen, whose triangle lies in block kCorner: that block in part, those on the
  // near side of it in full, the others not at all.
  template <Lanes kWhich, int kCorner>
  HWY_INLINE void corner_steps(int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      const Mask16 seen = lanes_seen<kWhich>(k - first);
      const float* a = t.a + m * t.a_row + k * t.a_step;
      const T* b = t.b + k * t.b_row + n;
      constexpr int kFirst = kWhich == Lanes::from_k ? kCorner : 0, kLast = kWhich == Lanes::from_k ? kBlocks - 1 : kCorner;
      F32x16 columns[kBlocks];
      HWY_UNROLL(4)
      for (int j = kFirst; j <= kLast; ++j) columns[j] = load(b + j * kBlock);
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        const F32x16 s = splat(a[r * t.a_row]);
        HWY_UNROLL(4)
        for (int j = kFirst; j <= kLast; ++j) sum[r][j] = j == kCorner ? fma_where(seen, s, columns[j], sum[r][j]) : fma(s, columns[j], sum[r][j]);
      }
    }
    if constexpr (kCorner + 1 < kBlocks) corner_steps<kWhich, kCorner + 1>(last, std::min(t.k, last + kBlock));
  }
  HWY_INLINE void store_all() const {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r)
      HWY_UNROLL(4)
      for (int j = 0; j < kBlocks; ++j) store(sum[r][j], c(r, j));
  }
};

// Rows that a panel goes on with when fewer than kRows are left.
constexpr int fewer(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows - 1; }

template <int kRows, int kBlocks, class T>
void product_panel(const TileProductWith<T>& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.meanwhile) t.meanwhile->some();
    SumsInRegisters<kRows, kBlocks, T> c(t, m, n);
    c.steps(0, t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) product_panel<fewer(kRows), kBlocks>(t, n, m);
}

// Register blocks. With 32 registers of 16 lanes: 24 sums, up to 4 blocks of B and one of A, in the shape that the
// columns leave (6 x 4 takes ten loads for 24 fused operations; the fewer columns, the more it is bound by its loads). With 16 registers of
// 8 lanes: 6 x 1 blocks (12 sums, 2 of B, 1 of A) fill the file.
template <class T>
void product(const TileProductWith<T>& t) {
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

inline void product(const TileProduct& t) { product<float>(t); }

// Columns n to n + 16 kBlocks: before (or after) the steps of their own triangle all of them take part.
template <Lanes kWhich, int kRows, int kBlocks>
void lane_triangle_panel(const TileProduct& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.meanwhile) t.meanwhile->some();
    SumsInRegisters<kRows, kBlocks> c(t, m, n);
    if (kWhich == Lanes::from_k) c.steps(0, n);
    c.template corner_steps<kWhich, 0>(n, std::min(t.k, n + kBlock));
    if (kWhich == Lanes::through_k) c.steps(n + kBlocks * kBlock, t.k);
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) lane_triangle_panel<kWhich, fewer(kRows), kBlocks>(t, n, m);
}

// The product on one side of the diagonal of B: step k is taken by the columns from k on, or by those up to k.
template <Lanes kWhich>
void lane_triangle_product(const TileProduct& t) {
  int64_t n = 0;
  if constexpr (kParts == 1) {
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) lane_triangle_panel<kWhich, 6, 4>(t, n);
    for (; n + 2 * kBlock <= t.n; n += 2 * kBlock) lane_triangle_panel<kWhich, 8, 2>(t, n);
  }
  for (; n < t.n; n += kBlock) lane_triangle_panel<kWhich, kParts == 1 ? 8 : 4, 1>(t, n);
}

template <int kRows, int kBlocks>
void row_triangle_panel(const TileProduct& t, int64_t n, int64_t m = 0) {
  for (; m + kRows <= t.m; m += kRows) {
    if (t.meanwhile) t.meanwhile->some();
    SumsInRegisters<kRows, kBlocks> c(t, m, n);
    c.steps(0, m);
    HWY_UNROLL(4)
    for (int k = 0; k < kRows; ++k) c.step(m + k, k, [](F32x16 sum, F32x16 a, F32x16 b) HWY_ATTR { return fma(a, b, sum); });
    c.store_all();
  }
  if constexpr (kRows > 1)
    if (m < t.m) row_triangle_panel<1, kBlocks>(t, n, m);
}

// The product on one side of the diagonal of A: row m takes the steps k <= m.
inline void row_triangle_product(const TileProduct& t) {
  int64_t n = 0;
  if constexpr (kParts == 1)
    for (; n + 4 * kBlock <= t.n; n += 4 * kBlock) row_triangle_panel<4, 4>(t, n);
  for (; n < t.n; n += kBlock) row_triangle_panel<4, 1>(t, n);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
