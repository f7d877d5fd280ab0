// The parts of a matmul: panels packed for the vector unit, and the micro-kernel that multiplies two of them.
//
// A panel of A holds kTileRows rows, k by k: a[k * kTileRows + i]. A panel of B holds kTileColumns columns, k by k:
// b[k * kTileColumns + j]. Both are words of 32 bits, padded with zeros at the end of the matrix: f32, whatever the
// dtype of the operands, or pairs of bf16 for bf16_dot.h; then a step is two k.

#if defined(WEFT_TILE_CPU_GEMM_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_GEMM_H_
#undef WEFT_TILE_CPU_GEMM_H_
#else
#define WEFT_TILE_CPU_GEMM_H_
#endif

#include <algorithm>

#include "weft/tile/cpu/bf16_dot.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// The sums of a tile stay in registers: rows x vectors of them, beside the row of B and one element of A. With 32
// registers (AVX-512, NEON) that is 6 x 4 + 5 = 29, with 16 (AVX2) 6 x 2 + 3 = 15. Two fused units with a latency of 4
// need 8 independent sums, and there are 24 or 12. Loads are the bottleneck: some machines load one 512-bit register
// a cycle, not two, and 6 x 4 takes 10 loads in the 12 cycles of its 24 multiplications where 12 x 2 takes 14.
inline constexpr int kTileRows = 6;
inline constexpr int kTileVectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;
inline constexpr int kTileColumns = kTileVectors * kLanes;

// Cache lines that later tiles will use, prefetched between the steps of this one, into L2, since L1 is full of panels. Sixteen steps
// prefetch four lines along `b`, one of a row of A (a tile prefetches four rows), and some of the lines of C of the next tile.
struct Prefetch {
  const char* b;
  int64_t b_stride;
  const char* a = nullptr;
  int64_t a_row = 0;
  const char* c = nullptr;
  int64_t c_row = 0;
};
inline constexpr int kStepsOfLine = 16;  // floats of a row of A in a cache line

// One step of a sum.
struct FmaStep {
  static HWY_INLINE V add(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
};
// The instruction for pairs of bf16, except for subnormals.
struct PairStep {
  static HWY_INLINE V odd(V word) { return hn::BitCast(D(), hn::And(hn::BitCast(DU(), word), hn::Set(DU(), 0xffff0000u))); }
  static HWY_INLINE V even(V word) { return hn::BitCast(D(), hn::ShiftLeft<16>(hn::BitCast(DU(), word))); }
  static HWY_INLINE V add(V a, V b, V sum) { return hn::MulAdd(even(a), even(b), hn::MulAdd(odd(a), odd(b), sum)); }
};

// c[i][j] = start + sum over k, in order, of a[k][i] b[k][j], where start is from[i][j] or, without `from`, 0. Each step
// continues the sum, so it may be cut between any two.
struct Sums {
  const float* from;  // null: 0
  int64_t from_row;
  float* c;  // whole vectors of it are written; may be `from`
  int64_t row;
  bool non_temporal = false;  // c is aligned to vectors and larger than the caches
};

// A step reads its elements of A packed, or as stored with a pointer for each row.
struct PackedA {
  const float* panel;
  HWY_INLINE V operator()(int64_t k, int i) const { return hn::Set(D(), panel[k * kTileRows + i]); }
  HWY_INLINE void advance(int64_t steps) { panel += steps * kTileRows; }
};
template <int kRows>
struct StoredA {
  const float* row[kRows];
  StoredA(const float* a, int64_t stride) {
    for (int i = 0; i < kRows; ++i) row[i] = a + i * stride;
  }
  HWY_INLINE V operator()(int64_t k, int i) const { return hn::Set(D(), row[i][k]); }
  HWY_INLINE void advance(int64_t steps) {
    HWY_UNROLL(6)
    for (int i = 0; i < kRows; ++i) row[i] += steps;
  }
};

// A step reads its row of B from the packed panel; or from B as stored, and packs it for later tiles.
struct ReadB {
  const float* panel;
  HWY_INLINE V operator()(int64_t k, int j) const { return hn::LoadU(D(), panel + k * kTileColumns + j * kLanes); }
  HWY_INLINE void advance(int64_t steps) { panel += steps * kTileColumns; }
};
template <class T>
struct PackB {
  const T* b;
  int64_t row;
  float* panel;
  HWY_INLINE V operator()(int64_t k, int j) const {
    const V x = load_part(b + k * row + j * kLanes);
    hn::StoreU(x, D(), panel + k * kTileColumns + j * kLanes);
    return x;
  }
  HWY_INLINE void advance(int64_t steps) { b += steps * row, panel += steps * kTileColumns; }
};

// Every four steps a line of a later tile's B is prefetched, or a vector of it copied into its panel. A row that is copied was
// prefetched kRowsAhead rows before: with four vectors a row and 48 cycles each that is 1500 cycles, longer than memory takes, and of
// rows a multiple of 64 KiB apart, which share a set of L2, fewer are in flight than the 20 ways of the set.
struct PrefetchB {
  const char* b;
  int64_t stride;
  HWY_INLINE void operator()() { __builtin_prefetch(b, 0, 2), b += stride; }
};
inline constexpr int64_t kRowsAhead = 8;
template <class T>
struct CopyB {
  const T* from;
  int64_t row;
  float* to;
  int64_t vectors;
  int64_t in_row = 0;
  HWY_INLINE void operator()() {
    if (vectors == 0) return;
    __builtin_prefetch(from + kRowsAhead * row, 0, 2);
    hn::StoreU(load_part(from), D(), to);
    from += kLanes, to += kLanes, --vectors;
    if (++in_row == kTileVectors) from += row - kTileColumns, in_row = 0;
  }
};

template <class Step, int kRows, int kVectors, class A, class B, class NextB>
void multiply_panels(int64_t steps, A a, B b, Sums sums, Prefetch ahead, NextB next_b) {
  const D d;
  V sum[kRows][kVectors];
  HWY_UNROLL(6)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) sum[i][j] = sums.from ? hn::LoadU(d, sums.from + i * sums.from_row + j * kLanes) : hn::Zero(d);
  }
  const auto step = [&](int64_t k) HWY_ATTR __attribute__((always_inline)) {  // else the sums would live in memory
    V right[kVectors];
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) right[j] = b(k, j);
    HWY_UNROLL(6)
    for (int i = 0; i < kRows; ++i) {
      const V x = a(k, i);
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) sum[i][j] = Step::add(x, right[j], sum[i][j]);
    }
  };
  constexpr int kLinesOfC = int(ceil_div(kVectors * kLanes * int(sizeof(float)), 64));
  const int64_t lines = steps / kStepsOfLine;
  for (int part = 0; part < 4; ++part)
    for (int64_t i = 0; i < lines; ++i) {
      next_b();
      __builtin_prefetch(ahead.a + part * ahead.a_row + i * 64, 0, 2);
      if (i < kRows && part < kLinesOfC) __builtin_prefetch(ahead.c + i * ahead.c_row + part * 64, 1, 2);
      step(0), step(1), step(2), step(3);
      a.advance(4), b.advance(4);
    }
  for (steps %= kStepsOfLine; steps > 0; --steps, a.advance(1), b.advance(1)) step(0);
  const auto store = [&](auto&& put) HWY_ATTR {
    HWY_UNROLL(6)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) put(sum[i][j], sums.c + i * sums.row + j * kLanes);
    }
  };
  if (sums.non_temporal)
    store([](V x, float* to) HWY_ATTR { hn::Stream(x, D(), to); });
  else
    store([](V x, float* to) HWY_ATTR { hn::StoreU(x, D(), to); });
}

struct Tile {
  int64_t rows, columns, steps;  // of the panels: up to kTileRows, kTileColumns
  const float *a, *b;
  int64_t a_row;  // 0: A is packed
  Sums sums;
};

// multiply_panels for as many rows and vectors as the tile has.
template <class Step>
void multiply_tile(const Tile& t, Prefetch ahead) {
  const auto multiply = [&]<int kRows>(auto a) HWY_ATTR {
    const ReadB b{t.b};
    const PrefetchB next{ahead.b, ahead.b_stride};
    const int64_t vectors = ceil_div(t.columns, kLanes);
    if (kTileVectors > 2 && vectors == 4) return multiply_panels<Step, kRows, kTileVectors>(t.steps, a, b, t.sums, ahead, next);
    if (kTileVectors > 2 && vectors == 3) return multiply_panels<Step, kRows, 3>(t.steps, a, b, t.sums, ahead, next);
    if (vectors == 2) return multiply_panels<Step, kRows, 2>(t.steps, a, b, t.sums, ahead, next);
    multiply_panels<Step, kRows, 1>(t.steps, a, b, t.sums, ahead, next);
  };
  const auto with_rows = [&]<int kRows>() HWY_ATTR {
    t.a_row ? multiply.template operator()<kRows>(StoredA<kRows>(t.a, t.a_row)) : multiply.template operator()<kRows>(PackedA{t.a});
  };
  switch (t.rows) {
    case 1: return with_rows.template operator()<1>();
    case 2: return with_rows.template operator()<2>();
    case 3: return with_rows.template operator()<3>();
    case 4: return with_rows.template operator()<4>();
    case 5: return with_rows.template operator()<5>();
    default: return with_rows.template operator()<kTileRows>();
  }
}

// A whole tile, kTileRows x kTileColumns.
template <class B, class NextB>
void multiply_whole(const Tile& t, B b, Prefetch ahead, NextB next) {
  t.a_row ? multiply_panels<FmaStep, kTileRows, kTileVectors>(t.steps, StoredA<kTileRows>(t.a, t.a_row), b, t.sums, ahead, next)
          : multiply_panels<FmaStep, kTileRows, kTileVectors>(t.steps, PackedA{t.a}, b, t.sums, ahead, next);
}
// Multiplies and packs the panel of B from `b`, rows b_row apart; or copies part of the next block.
template <class T>
void multiply_and_pack(const Tile& t, const T* b, int64_t b_row, float* panel, Prefetch ahead) {
  multiply_whole(t, PackB<T>{b, b_row, panel}, ahead, PrefetchB{ahead.b, ahead.b_stride});
}
template <class T>
void multiply_and_copy(const Tile& t, CopyB<T> next, Prefetch ahead) {
  multiply_whole(t, ReadB{t.b}, ahead, next);
}

// ---- packing: a panel of W rows of A or columns of B ("lines") over K steps

using D4 = hn::CappedTag<float, 4>;
using V4 = hn::Vec<D4>;

// Packs words of f32, each an element of T, widened.
template <class T>
struct WidenedWords {
  using Element = T;
  static constexpr int kElements = 1;  // a word
  static HWY_INLINE V4 load_4(const float* p) { return hn::LoadU(D4(), p); }
  static HWY_INLINE V4 load_4(const bf16* p) {
    const auto half = hn::LoadU(hn::Rebind<uint16_t, D4>(), reinterpret_cast<const uint16_t*>(p));
    return hn::BitCast(D4(), hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D4>(), half)));
  }
  static float word(const T* p, int64_t, int64_t) { return float(*p); }
  static HWY_INLINE V across(const T* p, int64_t, int64_t) { return load_part(p); }
};

// Packs words of two bf16, consecutive in k; a last odd one is paired with zero.
struct PairedWords {
  using Element = bf16;
  static constexpr int kElements = 2;
  static HWY_INLINE V4 load_4(const bf16* p) {
    return hn::BitCast(D4(), hn::LoadU(hn::Repartition<uint16_t, D4>(), reinterpret_cast<const uint16_t*>(p)));
  }
  // Elements p[0] and p[step], the second if there are more than one left.
  static float word(const bf16* p, int64_t step, int64_t left) {
    bf16 pair[2] = {p[0], left > 1 ? p[step] : bf16(0.0f)};
    float bits;
    std::memcpy(&bits, pair, sizeof bits);
    return bits;
  }
  static HWY_INLINE V across(const bf16* p, int64_t step, int64_t left) {
    const auto half = [](const bf16* q) HWY_ATTR {
      return hn::PromoteTo(DU(), hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(q)));
    };
    auto words = half(p);
    if (left > 1) words = hn::Or(words, hn::ShiftLeft<16>(half(p + step)));
    return hn::BitCast(D(), words);
  }
};

// Four steps of one line and, in the other quarters of a longer register, of the lines 4, 8 and 12 below.
template <class Words, class Dn, class T>
HWY_INLINE hn::Vec<Dn> load_lines(Dn d, const T* from, [[maybe_unused]] int64_t line) {
  if constexpr (hn::MaxLanes(Dn()) == 16) {
    const hn::Half<Dn> half;
    const hn::Vec<Dn> v = hn::ZeroExtendVector(d, load_lines<Words>(half, from, line));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86  // inserted from memory, they need no shuffle
    return hn::Vec<Dn>{
        _mm512_insertf32x4(_mm512_insertf32x4(v.raw, Words::load_4(from + 8 * line).raw, 2), Words::load_4(from + 12 * line).raw, 3)};
#else
    return hn::Combine(d, load_lines<Words>(half, from + 8 * line, line), hn::LowerHalf(half, v));
#endif
  } else if constexpr (hn::MaxLanes(Dn()) == 8)
    return hn::Combine(d, Words::load_4(from + 4 * line), Words::load_4(from));
  else
    return Words::load_4(from);
}

// panel[k][w] for words k in [0, 4) and as many lines w, contiguous in k, as d has lanes (4, 8 or 16).
template <class Words, int W, class Dn, class T>
HWY_INLINE void transpose_lines(Dn d, const T* from, int64_t line, float* panel) {
  const auto r0 = load_lines<Words>(d, from, line), r1 = load_lines<Words>(d, from + line, line);
  const auto r2 = load_lines<Words>(d, from + 2 * line, line), r3 = load_lines<Words>(d, from + 3 * line, line);
  const auto even_low = hn::InterleaveLower(d, r0, r2), odd_low = hn::InterleaveLower(d, r1, r3);
  const auto even_high = hn::InterleaveUpper(d, r0, r2), odd_high = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, panel);
  hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, panel + W);
  hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, panel + 2 * W);
  hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, panel + 3 * W);
}

// First line of group i of four that cover W lines; the last overlaps the one before if W is not a multiple of 4.
template <int W>
constexpr int four(int i) {
  return 4 * i + 4 <= W ? 4 * i : W - 4;
}

// Packs whole fours of words of `lines` of W lines, kAtOnce lines at a time and sixteen steps of each, so that a cache line has been
// used up before others that map to its set are read.
template <class Words, int W, int kAtOnce, class T>
void pack_fours(const T* from, int64_t line, int64_t lines, int64_t fours, float* panel) {
  for (int64_t k = 0; k < fours; k += kBlock)
    for (int w = 0; w < lines; w += kAtOnce) {
      const int first = kAtOnce == 4 ? four<W>(w / 4) : w;
      for (int64_t i = k; i < std::min<int64_t>(fours, k + kBlock); i += 4)
        transpose_lines<Words, W>(hn::CappedTag<float, kAtOnce>(), from + first * line + i * Words::kElements, line, panel + i * W + first);
    }
}

// panel[k][w] = words of from[w * line + k]: lines are stored along k (A as stored, B transposed).
template <class Words, int W, class T>
void pack_along_k(const T* from, int64_t line, int64_t lines, int64_t K, float* panel) {
  constexpr int kElements = Words::kElements, kMost = std::min(kLanes, W % 16 == 0 ? 16 : W % 8 == 0 ? 8 : 4);
  const int64_t whole = lines == W ? W : W % kMost == 0 ? lines / kMost * kMost : 0;
  const int64_t steps = ceil_div(K, kElements), fours = K / kElements / 4 * 4;
  if (kMost == 16 && line * int64_t(sizeof(T)) % 4096 == 0)
    pack_fours<Words, W, std::min(kMost, 8)>(from, line, whole, fours,
                                             panel);  // sixteen lines a page apart are more than a set of L1 holds
  else
    pack_fours<Words, W, kMost>(from, line, whole, fours, panel);
  for (int64_t k = whole == W ? fours : 0; k < steps; ++k)
    for (int64_t w = k < fours ? whole : 0; w < W; ++w)
      panel[k * W + w] = w < lines ? Words::word(from + w * line + k * kElements, 1, K - k * kElements) : 0.0f;
}

// panel[k][w] = words of from[k * step + w]: a step of k holds its lines side by side (B as stored, A transposed).
template <class Words, int W, class T>
void pack_across_k(const T* from, int64_t step, int64_t lines, int64_t K, float* panel) {
  for (int64_t left = K; left > 0; left -= Words::kElements, from += Words::kElements * step, panel += W) {
    if constexpr (W % kLanes == 0)
      if (lines == W) {
        for (int w = 0; w < W; w += kLanes) store_part(Words::across(from + w, step, left), panel + w);
        continue;
      }
    if constexpr (Words::kElements == 1 && W % kLanes != 0)
      if (lines == W) {
        for (int i = 0; i < (W + 3) / 4; ++i) hn::StoreU(Words::load_4(from + four<W>(i)), D4(), panel + four<W>(i));
        continue;
      }
    for (int w = 0; w < W; ++w) panel[w] = w < lines ? Words::word(from + w, step, left) : 0.0f;
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
