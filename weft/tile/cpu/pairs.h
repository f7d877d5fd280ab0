// Words of two bf16 for tile matmuls (tile_matmul.h): the steps that multiply them, and how they are packed.
//
// A word holds the even k in its lower half. If k runs along a row of bf16, its words are the row as stored; if k runs over rows, a word
// takes an element of two rows. bf16_dot.h defines what a step computes.

#if defined(WEFT_TILE_CPU_PAIRS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_PAIRS_H_
#undef WEFT_TILE_CPU_PAIRS_H_
#else
#define WEFT_TILE_CPU_PAIRS_H_
#endif

#include "weft/tile/cpu/tile_matmul.h"
#include "weft/tile/cpu/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// The step by f32 multiply-adds.
struct EmulatedDot {
  static constexpr int kElements = 2;
  static constexpr int kGrain = 2;  // k that a sum takes at a time
  static HWY_INLINE F32x16 add(F32x16 a, F32x16 b, F32x16 sum) {
    for (int i = 0; i < kParts; ++i) sum.part[i] = PairStep::add(a.part[i], b.part[i], sum.part[i]);
    return sum;
  }
  static HWY_INLINE F32x16 odd_only(F32x16 word) {
    return map([](V x) HWY_ATTR { return PairStep::odd(x); }, word);
  }
  static HWY_INLINE F32x16 even_only(F32x16 word) {
    return map([](V x) HWY_ATTR { return hn::BitCast(D(), hn::And(hn::BitCast(DU(), x), hn::Set(DU(), 0xffffu))); }, word);
  }
};

// The step as one instruction, for bf16_dot() == hardware and registers of 16 floats. Inline assembly: no compiled target has it.
#define WEFT_HAS_DOT (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
#if WEFT_HAS_DOT
struct HardwareDot : EmulatedDot {
  static HWY_INLINE F32x16 add(F32x16 a, F32x16 b, F32x16 sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.part[0].raw) : "v"(a.part[0].raw), "v"(b.part[0].raw));
    return sum;
  }
};
#endif

// Words of two rows, rounded to nearest even.
HWY_INLINE F32x16 round_to_pairs(F32x16 even, F32x16 odd) {
  for (int i = 0; i < kParts; ++i) {
    const auto low = hn::PromoteTo(DU(), to_bf16(even.part[i])), high = hn::PromoteTo(DU(), to_bf16(odd.part[i]));
    even.part[i] = hn::BitCast(D(), hn::Or(low, hn::ShiftLeft<16>(high)));
  }
  return even;
}

// to[r][c] = words of rows 2 r and 2 r + 1, `to_row` a multiple of 16; zeros past the last row and column.
inline void pair_rows(const bf16* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; r += 2, from += 2 * from_row, to += to_row)
    for_each_block(columns, [=](At at) HWY_ATTR {
      const F32x16 even = at.load(from), odd = r + 1 < rows ? at.load(from + from_row) : zero();
      F32x16 words;
      for (int i = 0; i < kParts; ++i)
        words.part[i] = hn::BitCast(D(), hn::Or(hn::ShiftRight<16>(hn::BitCast(DU(), even.part[i])), hn::BitCast(DU(), odd.part[i])));
      store(words, to + at.i);
    });
}

// to[k][r] = word k of row r, for 64 rows, zeros past the last one.
inline void transpose_pairs(const bf16* from, int64_t from_row, int64_t rows, int64_t columns, float* to) {
  pack_along_k<PairedWords, kPairColumns>(from, from_row, rows, columns, to);
}

// Whether no element of rows of words is an infinity or NaN.
inline bool pairs_are_finite(const float* words, int64_t row, int64_t rows, int64_t columns) {
  const DI di;
  auto most = hn::Zero(di);
  const auto magnitude = hn::Set(di, 0x7fffffff);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += kLanes) {
      const auto word = hn::BitCast(di, hn::LoadU(D(), words + r * row + c));
      most = hn::Max(most, hn::Max(hn::And(word, magnitude), hn::And(hn::ShiftLeft<16>(word), magnitude)));
    }
  return hn::AllTrue(di, hn::Lt(most, hn::Set(di, 0x7f800000)));
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
