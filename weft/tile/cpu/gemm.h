// What a matrix product is made of: panels packed for the vector unit, and the micro-kernel that multiplies two of them.
//
// A panel of A holds kTileRows rows, k by k: a[k * kTileRows + i]. A panel of B holds kTileColumns columns, k by k:
// b[k * kTileColumns + j]. Both are f32, whatever the operands were, and filled up with zeros where the matrix ends.

#if defined(WEFT_TILE_CPU_GEMM_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_GEMM_H_
#undef WEFT_TILE_CPU_GEMM_H_
#else
#define WEFT_TILE_CPU_GEMM_H_
#endif

#include <algorithm>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// The sums of a tile stay in registers: rows x 2 of them, beside 2 for the row of B and 1 for the element of A. With 32
// registers (AVX-512, NEON) that is 12 x 2 + 3 = 27, with 16 (AVX2) 6 x 2 + 3 = 15. Two fused units with a latency of 4
// need 8 independent sums, and there are 24 or 12; a step loads 14 or 8 times for its 24 or 12 multiplications, within
// the two loads a cycle that every such machine has.
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX2 ? 6 : 12;
inline constexpr int kTileColumns = 2 * kLanes;

// c[i][j] = start + sum over k, in order, of a[k][i] b[k][j], a full tile: start is c's own value or, with kFromZero, 0.
// Each k is one fma, so a sum may be cut anywhere along k and continued.
template <bool kFromZero>
HWY_INLINE void multiply_panels(int64_t K, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c, int64_t row) {
  const D d;
  V sum[kTileRows][2];
  HWY_UNROLL(12)
  for (int i = 0; i < kTileRows; ++i) {
    sum[i][0] = kFromZero ? hn::Zero(d) : hn::LoadU(d, c + i * row);
    sum[i][1] = kFromZero ? hn::Zero(d) : hn::LoadU(d, c + i * row + kLanes);
  }
  HWY_UNROLL(4)  // a step in four pays for the loop's own arithmetic, which shares ports with the multiplications
  for (int64_t k = 0; k < K; ++k, a += kTileRows, b += kTileColumns) {
    const V left = hn::LoadU(d, b), right = hn::LoadU(d, b + kLanes);
    HWY_UNROLL(12)
    for (int i = 0; i < kTileRows; ++i) {
      const V x = hn::Set(d, a[i]);
      sum[i][0] = hn::MulAdd(x, left, sum[i][0]);
      sum[i][1] = hn::MulAdd(x, right, sum[i][1]);
    }
  }
  HWY_UNROLL(12)
  for (int i = 0; i < kTileRows; ++i) {
    hn::StoreU(sum[i][0], d, c + i * row);
    hn::StoreU(sum[i][1], d, c + i * row + kLanes);
  }
}

// ---- packing: a panel of W rows of A or columns of B ("lines") over K steps

using D4 = hn::CappedTag<float, 4>;
using V4 = hn::Vec<D4>;

HWY_INLINE V4 load_4(const float* p) { return hn::LoadU(D4(), p); }
HWY_INLINE V4 load_4(const bf16* p) {
  const auto half = hn::LoadU(hn::Rebind<uint16_t, D4>(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(D4(), hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D4>(), half)));
}

// panel[k][w] for k in [0, 4), w in [0, 4), from four lines that are contiguous in k.
template <int W, class T>
HWY_INLINE void transpose_4x4(const T* from, int64_t line, float* panel) {
  const V4 r0 = load_4(from), r1 = load_4(from + line), r2 = load_4(from + 2 * line), r3 = load_4(from + 3 * line);
  const D4 d;
  const V4 even_low = hn::InterleaveLower(d, r0, r2), odd_low = hn::InterleaveLower(d, r1, r3);
  const V4 even_high = hn::InterleaveUpper(d, r0, r2), odd_high = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, panel);
  hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, panel + W);
  hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, panel + 2 * W);
  hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, panel + 3 * W);
}

// Where the fours begin that cover W lines; the last overlaps the one before when W is no multiple of 4.
template <int W>
constexpr int four(int i) {
  return 4 * i + 4 <= W ? 4 * i : W - 4;
}

// panel[k][w] = from[w * line + k]: lines lie in memory along k (A as stored, B transposed).
template <int W, class T>
HWY_INLINE void pack_along_k(const T* from, int64_t line, int64_t lines, int64_t K, float* panel) {
  int64_t k = 0;
  if (lines == W)
    for (; k + 4 <= K; k += 4)
      for (int i = 0; i < (W + 3) / 4; ++i) transpose_4x4<W>(from + four<W>(i) * line + k, line, panel + k * W + four<W>(i));
  for (; k < K; ++k)
    for (int w = 0; w < W; ++w) panel[k * W + w] = w < lines ? float(from[w * line + k]) : 0.0f;
}

// panel[k][w] = from[k * step + w]: a step of k holds its lines side by side (B as stored, A transposed).
template <int W, class T>
HWY_INLINE void pack_across_k(const T* from, int64_t step, int64_t lines, int64_t K, float* panel) {
  for (int64_t k = 0; k < K; ++k, from += step, panel += W) {
    if (lines < W) {
      for (int w = 0; w < W; ++w) panel[w] = w < lines ? float(from[w]) : 0.0f;
    } else if constexpr (W % kLanes == 0) {
      for (int w = 0; w < W; w += kLanes) store_part(load_part(from + w), panel + w);
    } else {
      for (int i = 0; i < (W + 3) / 4; ++i) hn::StoreU(load_4(from + four<W>(i)), D4(), panel + four<W>(i));
    }
  }
}

// A dot product in row_sum's order, each term entering by an fma.
template <class T, class U>
HWY_INLINE float row_dot(int64_t n, const T* x, const U* y) {
  F32x16 acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock)
    for (int c = 0; c < 4; ++c) acc[c] = fma(load(x + i + c * kBlock), load(y + i + c * kBlock), acc[c]);
  for (int c = 0; i + kBlock <= n; i += kBlock, ++c) acc[c] = fma(load(x + i), load(y + i), acc[c]);
  if (i < n) acc[0] = first_n(n - i, fma(load_n(x + i, n - i), load_n(y + i, n - i), acc[0]), acc[0]);
  return sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
