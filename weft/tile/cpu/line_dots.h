// Dot products of lines that are stored along k with a few rows of x: a token times a weight, or a query times cached keys. Each is one
// chain over k, in the order of a matmul of any size (order.h), so the lanes are lines: they are transposed in registers, sixteen words
// of each at a time, and a line comes from memory once.

#if defined(WEFT_TILE_CPU_LINE_DOTS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_LINE_DOTS_H_
#undef WEFT_TILE_CPU_LINE_DOTS_H_
#else
#define WEFT_TILE_CPU_LINE_DOTS_H_
#endif

#include "weft/tile/cpu/pairs.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// How a word of a line is multiplied: f32, two bf16 widened, or two bf16 as a pair. x has kOfX floats for each word: values, or words
// as their bits. add_half takes the last word if K is odd, whose upper half is zero.
struct FloatDots {
  using Element = float;
  static constexpr bool kHasInstruction = false;  // uses AVX512_BF16
  static constexpr int kElements = 1, kOfX = 1;
  static HWY_INLINE V add(V word, const float* x, V sum) { return hn::MulAdd(hn::Set(D(), x[0]), word, sum); }
  static HWY_INLINE V add_half(V word, const float* x, V sum) { return add(word, x, sum); }
};
struct WidenedDots {
  using Element = bf16;
  static constexpr bool kHasInstruction = false;
  static constexpr int kElements = 2, kOfX = 2;
  static HWY_INLINE V add(V word, const float* x, V sum) {
    return hn::MulAdd(hn::Set(D(), x[1]), PairStep::odd(word), add_half(word, x, sum));
  }
  static HWY_INLINE V add_half(V word, const float* x, V sum) { return hn::MulAdd(hn::Set(D(), x[0]), PairStep::even(word), sum); }
};
struct EmulatedPairDots {
  using Element = bf16;
  static constexpr bool kHasInstruction = false;
  static constexpr int kElements = 2, kOfX = 1;
  static HWY_INLINE V add(V word, const float* x, V sum) { return PairStep::add(hn::Set(D(), x[0]), word, sum); }
  static HWY_INLINE V add_half(V word, const float* x, V sum) { return add(word, x, sum); }
};
#if WEFT_HAS_DOT
struct PairDots : EmulatedPairDots {
  static constexpr bool kHasInstruction = true;
  static HWY_INLINE V add(V word, const float* x, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(hn::Set(D(), x[0]).raw), "v"(word.raw));
    return sum;
  }
  static HWY_INLINE V add_half(V word, const float* x, V sum) { return add(word, x, sum); }
};
#endif

inline constexpr int kWordsOfLine = 16;  // of a line at a time: a cache line
// Lines at a time. A chain of widened bf16 takes 128 cycles for sixteen words of a register of lines: with 32 lines, in two registers or
// four, that is 16 bytes a cycle, more than memory gives.
inline constexpr int kDotGroup = (kLanes == 16 ? 2 : 4) * kLanes;

// Lines `step` bytes apart; a group with fewer than kDotGroup lines repeats its last.
struct Lines {
  const char* at;
  int64_t step;
  HWY_INLINE const char* operator()(int i) const { return at + i * step; }
};
struct FewLines {
  const char* at;
  int64_t step, last;
  HWY_INLINE const char* operator()(int i) const { return at + std::min<int64_t>(i, last) * step; }
};
// The words of the last lines, copied: [line][sixteen words].
struct CopiedLines {
  const char* at;
  HWY_INLINE const char* operator()(int i) const { return at + i * int64_t(kWordsOfLine * sizeof(float)); }
};

HWY_INLINE V4 load_4_words(const char* p) {
  const hn::Repartition<uint8_t, D4> bytes;
  return hn::BitCast(D4(), hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(p)));
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// use(w, word w of sixteen lines) for eight words, from [line i, line i + 8].
template <class F>
HWY_INLINE void transpose_half(const __m512 (&r)[8], int first, F use) {
  const auto lower = [](__m512 a, __m512 b) HWY_ATTR { return _mm512_castps_pd(_mm512_unpacklo_ps(a, b)); };
  const auto upper = [](__m512 a, __m512 b) HWY_ATTR { return _mm512_castps_pd(_mm512_unpackhi_ps(a, b)); };
  __m512d low[4], high[4];  // words w and w + 4 of lines 0 to 3 and 8 to 11; of lines 4 to 7 and 12 to 15
  const auto fours = [&](int i, __m512d(&to)[4]) HWY_ATTR __attribute__((always_inline)) {
    const __m512d a = lower(r[i], r[i + 1]), b = lower(r[i + 2], r[i + 3]), c = upper(r[i], r[i + 1]), d = upper(r[i + 2], r[i + 3]);
    to[0] = _mm512_unpacklo_pd(a, b), to[1] = _mm512_unpackhi_pd(a, b);
    to[2] = _mm512_unpacklo_pd(c, d), to[3] = _mm512_unpackhi_pd(c, d);
  };
  fours(0, low), fours(4, high);
  const __m512i early = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), late = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) use(first + w, V{_mm512_castpd_ps(_mm512_permutex2var_pd(low[w], early, high[w]))});
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) use(first + 4 + w, V{_mm512_castpd_ps(_mm512_permutex2var_pd(low[w], late, high[w]))});
}
// use(w, word w of kLanes lines from line `first` on) for sixteen words, in order. A line is loaded by two neighbouring loads: sixteen
// lines a page apart are more than a set of L1 holds.
template <class L, class F>
HWY_INLINE void for_each_word(const L& line, int first, int64_t offset, F use) {
  __m512 low[8], high[8];
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    const auto load = [&](int at, int64_t half) HWY_ATTR {
      return _mm256_castps_pd(_mm256_loadu_ps(reinterpret_cast<const float*>(line(first + i + at) + offset) + half));
    };
    low[i] = _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castpd256_pd512(load(0, 0)), load(8, 0), 1));
    high[i] = _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castpd256_pd512(load(0, 8)), load(8, 8), 1));
  }
  transpose_half(low, 0, use);
  transpose_half(high, 8, use);
}
#else
// Four words of one line and, in the other half of a longer register, of the line four below.
template <class L, class Dn>
HWY_INLINE hn::Vec<Dn> load_words(Dn d, const L& line, int i, int64_t offset) {
  if constexpr (hn::MaxLanes(Dn()) == 8)
    return hn::Combine(d, load_4_words(line(i + 4) + offset), load_4_words(line(i) + offset));
  else
    return load_4_words(line(i) + offset);
}
template <class L, class F>
HWY_INLINE void for_each_word(const L& line, int first, int64_t offset, F use) {
  const D d;
  HWY_UNROLL(4)
  for (int w = 0; w < kWordsOfLine; w += 4) {
    const auto row = [&](int i) HWY_ATTR { return load_words(d, line, first + i, offset + w * int64_t(sizeof(float))); };
    const V r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const V even_low = hn::InterleaveLower(d, r0, r2), odd_low = hn::InterleaveLower(d, r1, r3);
    const V even_high = hn::InterleaveUpper(d, r0, r2), odd_high = hn::InterleaveUpper(d, r1, r3);
    use(w, hn::InterleaveLower(d, even_low, odd_low));
    use(w + 1, hn::InterleaveUpper(d, even_low, odd_low));
    use(w + 2, hn::InterleaveLower(d, even_high, odd_high));
    use(w + 3, hn::InterleaveUpper(d, even_high, odd_high));
  }
}
#endif

// sums[r][i] += x_r . line i for kRows rows and kDotGroup lines (whole vectors of sums are written). A step prefetches kDotGroup cache
// lines from ahead(at) on, one between every few sums: all at once they would take every line fill buffer, and loads out of L2 would wait.
template <class Dots, int kRows, class L, class Ahead>
void dot_group(const L& line, int64_t K, const float* x, int64_t x_row, float* sums, int64_t sums_row, Ahead ahead) {
  constexpr int64_t kStep = kWordsOfLine * Dots::kElements, kBytes = kWordsOfLine * sizeof(float);
  constexpr int kGroups = kDotGroup / kLanes;
  V sum[kGroups][kRows];
  HWY_UNROLL(4)
  for (int g = 0; g < kGroups; ++g) HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) sum[g][r] = hn::LoadU(D(), sums + r * sums_row + g * kLanes);
  const int64_t blocks = K / kStep, end = blocks * kBytes;
  for (int64_t at = 0; at < end; at += kBytes, x += kWordsOfLine * Dots::kOfX) {
    const auto next = ahead(at);
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g)
      for_each_word(line, g * kLanes, at, [&](int w, V word) HWY_ATTR __attribute__((always_inline)) {
        if constexpr (!std::is_null_pointer_v<std::remove_cv_t<decltype(next)>>)
          if (w % (kWordsOfLine / kLanes) == 0) __builtin_prefetch(next + (g * kLanes + w * kLanes / kWordsOfLine) * 64, 0, 2);
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) sum[g][r] = Dots::add(word, x + r * x_row + w * Dots::kOfX, sum[g][r]);
      });
  }
  if (const int64_t left = K - blocks * kStep; left > 0) {
    alignas(64) char copy[kDotGroup * kBytes] = {};
    for (int i = 0; i < kDotGroup; ++i) std::memcpy(copy + i * kBytes, line(i) + end, size_t(left) * sizeof(typename Dots::Element));
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g)
      for_each_word(CopiedLines{copy}, g * kLanes, 0, [&](int w, V word) HWY_ATTR __attribute__((always_inline)) {
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
          const float* factor = x + r * x_row + w * Dots::kOfX;
          if ((w + 1) * Dots::kElements <= left)
            sum[g][r] = Dots::add(word, factor, sum[g][r]);
          else if (w * Dots::kElements < left)
            sum[g][r] = Dots::add_half(word, factor, sum[g][r]);
        }
      });
  }
  HWY_UNROLL(4)
  for (int g = 0; g < kGroups; ++g) HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) hn::StoreU(sum[g][r], D(), sums + r * sums_row + g * kLanes);
}

// Lines that come from memory. The hardware prefetcher follows a few streams, not as many as there are lines, and its requests are most of
// those in flight; so the next group is prefetched as it lies in memory, from its first line to its last, while this one is multiplied.
struct GroupAhead {
  static constexpr int64_t kPiece = kDotGroup * 64;   // bytes that a step reads, and prefetches
  static constexpr int64_t kMost = int64_t(1) << 18;  // bytes of a group: two stay in L2
  const char* at;
  int64_t step;

  bool small() const { return kDotGroup * step <= kMost; }
  // Longer lines go by pieces, a piece of one line in each step.
  HWY_INLINE const char* operator()(int64_t done, int64_t end) const {
    if (small()) return at + kDotGroup * (step + done);
    const int64_t piece = done / kPiece * kPiece + kPiece, line = done % kPiece / 64;
    return piece < end ? at + line * step + piece : at + (kDotGroup + line) * step;
  }
  // Prefetches the first lines: no group before has done it.
  void first() const {
    const int64_t lines = small() ? 1 : kDotGroup, bytes = small() ? kDotGroup * step : kPiece;
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + line * step + i, 0, 2);
  }
};

// sums[r][i] += x_r . line i for `count` lines, `step` elements apart; writes sums of whole groups.
// kFromCache: at most one group, whose lines are in L1.
template <class Dots, int kRows, bool kFromCache = false>
void dot_lines(const typename Dots::Element* lines, int64_t step, int64_t count, int64_t K, const float* x, int64_t x_row, float* sums,
               int64_t sums_row) {
  constexpr int64_t kElement = sizeof(typename Dots::Element);
  if constexpr (kFromCache) {
    const char* const at = reinterpret_cast<const char*>(lines);
    const auto nothing = [](int64_t) { return nullptr; };
    if (count == kDotGroup) return dot_group<Dots, kRows>(Lines{at, step * kElement}, K, x, x_row, sums, sums_row, nothing);
    return dot_group<Dots, kRows>(FewLines{at, step * kElement, count - 1}, K, x, x_row, sums, sums_row, nothing);
  }
  GroupAhead ahead{reinterpret_cast<const char*>(lines), step * kElement};
  const int64_t end = K * kElement;
  ahead.first();
  for (; count >= kDotGroup; count -= kDotGroup, ahead.at += kDotGroup * ahead.step, sums += kDotGroup)
    dot_group<Dots, kRows>(Lines{ahead.at, ahead.step}, K, x, x_row, sums, sums_row, [=](int64_t done) { return ahead(done, end); });
  if (count > 0)
    dot_group<Dots, kRows>(FewLines{ahead.at, ahead.step, count - 1}, K, x, x_row, sums, sums_row, [at = ahead.at](int64_t) { return at; });
}

// The floats of x in a row of K elements.
template <class Dots>
constexpr int64_t floats_of_x(int64_t K) {
  return ceil_div(K, Dots::kElements) * Dots::kOfX;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
