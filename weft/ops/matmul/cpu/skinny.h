// Skinny matmul, at most four rows: one token or a few times a whole weight. Reading B is the bound, so B is read once, in its own
// dtype, and never packed; an element has the bits of a matmul of any size (weft/tile/cpu/order.h).

#if defined(WEFT_OPS_MATMUL_CPU_SKINNY_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_SKINNY_H_
#undef WEFT_OPS_MATMUL_CPU_SKINNY_H_
#else
#define WEFT_OPS_MATMUL_CPU_SKINNY_H_
#endif

#include <optional>
#include <span>

#include "weft/ops/matmul/cpu/finish.h"
#include "weft/ops/matmul/cpu/int8.h"
#include "weft/ops/matmul/cpu/skinny_amx.h"
#include "weft/ops/matmul_group/matmul_group.h"
#include "weft/tile/cpu/line_dots.h"
#include "weft/tile/cpu/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Word k of B as stored, of the columns at `at`: an element, or those of rows 2 k and 2 k + 1, the second zero if there is none.
template <class Dots, class T>
HWY_INLINE F32x16 column_words(At at, const T* b, int64_t row, bool whole) {
  const F32x16 first = at.load(b);
  if constexpr (Dots::kElements == 1 || Dots::kOfX == 2) return first;
  const F32x16 second = whole ? at.load(b + row) : zero();
  F32x16 words;
  for (int i = 0; i < kParts; ++i)
    words.part[i] = hn::BitCast(D(), hn::Or(hn::ShiftRight<16>(hn::BitCast(DU(), first.part[i])), hn::BitCast(DU(), second.part[i])));
  return words;
}

// sums[j] takes x[0] b[0][j], then x[1] b[1][j], ...; kSteps words of x and B at a time, so that a sum is loaded and stored once for
// several. whole: the last word has two elements.
template <class Dots, int kSteps, class T>
HWY_INLINE void add_steps(const float* x, const T* b, int64_t row, int64_t columns, bool whole, float* sums) {
  constexpr int kRowsOfWord = Dots::kOfX == 2 ? 1 : Dots::kElements;  // widened elements are words of their own here
  for_each_block(columns, [&](At at) HWY_ATTR {
    F32x16 s = at.load(sums);
    for (int k = 0; k < kSteps; ++k) {
      const F32x16 words = column_words<Dots>(at, b + k * kRowsOfWord * row, row, k + 1 < kSteps || whole);
      if constexpr (kRowsOfWord == 1)
        s = fma(splat(x[k]), words, s);
      else
        for (int i = 0; i < kParts; ++i) s.part[i] = Dots::add(words.part[i], x + k, s.part[i]);
    }
    at.store(s, sums);
  });
}

// Rows of A as Dots multiplies them, [rows][floats_of_x]: f32, or words of two bf16; the matrices of a batch in order.
template <class Dots>
void copy_rows(Stream& stream, const MatmulArgs& args, const MatmulPlan& p, float* x) {
  using T = typename Dots::Element;
  constexpr bool kWords = Dots::kElements == 2 && Dots::kOfX == 1;
  const int64_t floats = floats_of_x<Dots>(p.K), step = args.transpose_a ? p.a.row : 1;
  parallel_for(p.batch(), threads(stream), [&](int64_t batch) HWY_ATTR {
    const T* a = data<T>(args.a) + p.offset(p.a, batch);
    for (int64_t r = 0; r < p.M; ++r) {
      float* to = x + (batch * p.M + r) * floats;
      const T* from = a + r * (args.transpose_a ? 1 : p.a.row);
      if constexpr (kWords)
        for (int64_t w = 0; w < floats; ++w) to[w] = PairedWords::word(from + 2 * w * step, step, p.K - 2 * w);
      else if (args.transpose_a)
        for (int64_t k = 0; k < p.K; ++k) to[k] = float(from[k * step]);
      else
        for_each_block(p.K, [&](At at) HWY_ATTR { at.store(at.load(from), to); });
    }
  });
}

// One matmul, cut into runs of columns. x: its rows of A, prepared. widened: scratch for a span of kDotGroup rows of an int8 B, one per
// thread.
template <class Dots, class C>
class SkinnyMatmul {
  using T = typename Dots::Element;

 public:
  SkinnyMatmul(const MatmulArgs& args, const float* x, ScratchSlots* widened)
      : args_(args), p_(plan(args)), finish_(args_, p_), x_(x), widened_(widened) {
    // B transposed: a run has whole groups of lines, up to four while 64 runs are left, since its first lines are not prefetched.
    // B as stored: 32 runs, of whole cache lines in either dtype.
    constexpr int64_t kRuns = 32, kRunsOfLines = 64, kMostGroups = 4, kColumnsOfLines = 64;
    const int64_t groups = std::clamp<int64_t>(p_.N / (kRunsOfLines * kDotGroup), 1, kMostGroups);
    run_ = args.transpose_b
               ? groups * kDotGroup
               : std::clamp<int64_t>(ceil_div(ceil_div(p_.N, kRuns), kColumnsOfLines) * kColumnsOfLines, kColumnsOfLines, kMostColumns);
    runs_ = ceil_div(p_.N, run_);
  }
  static constexpr int64_t kWidenedFloats = kDotGroup * kInt8Span * int64_t(sizeof(T)) / int64_t(sizeof(float));
  int64_t tasks() const { return (p_.shared_b ? 1 : p_.batch()) * runs_; }

  void run(int64_t task) const {
    const int64_t job = task / runs_, first = task % runs_ * run_, columns = std::min(run_, p_.N - first);
    const int64_t rows = p_.shared_b ? p_.batch() * p_.M : p_.M;
    const float* a = x_ + job * rows * floats_of_x<Dots>(p_.K);
    const bool started = finish_.starts_at_c();
    const auto piece = [&](int64_t r) { return Piece{p_.shared_b ? r / p_.M : job, p_.shared_b ? r % p_.M : r, first, columns}; };
    alignas(64) float sums[MatmulArgs::kSkinnyRows][kMostColumns];
    for (int64_t r = 0; r < rows; ++r) {
      std::memset(sums[r], 0, size_t(ceil_div(columns, kDotGroup) * kDotGroup) * sizeof(float));
      if (started) finish_.start(piece(r), sums[r]);
    }
    if (args_.scales) {
      multiply_int8(a, rows, first, columns, sums[0]);
    } else {
      const T* b = data<T>(args_.b) + p_.offset(p_.b, job) + first * (args_.transpose_b ? p_.b.row : 1);
      args_.transpose_b ? multiply_lines(a, rows, b, p_.b.row, p_.K, columns, sums[0]) : multiply_columns(a, rows, b, columns, sums[0]);
    }
    for (int64_t r = 0; r < rows; ++r) finish_(piece(r), 1, sums[r], 0, started);
  }

 private:
  static constexpr int64_t kMostColumns = 1024;  // four rows of sums are 16 KiB: they stay in L1
  static constexpr int64_t kRowsAtOnce = 8;      // of B for each load and store of a sum: the hardware prefetches about as many
  static constexpr int64_t kRowsOfWord = Dots::kOfX == 2 ? 1 : Dots::kElements, kSteps = kRowsAtOnce / kRowsOfWord;

  void multiply_int8(const float* a, int64_t rows, int64_t first, int64_t columns, float* sums) const {
    ScratchSlots::Lease lease(*widened_);
    T* const lines = reinterpret_cast<T*>(lease.take(kWidenedFloats));
    const int64_t ahead = kDotGroup * args_.b.strides[0];  // prefetches the same columns of the next group of rows
    for (int64_t j = 0; j < columns; j += kDotGroup) {
      const int64_t count = std::min<int64_t>(kDotGroup, columns - j);
      for (int64_t k = 0; k < p_.K; k += kInt8Span) {
        const int64_t end = std::min(p_.K, k + kInt8Span);
        widen_rows<Dots::kHasInstruction>(args_, first + j, count, k, end, lines, kInt8Span, ahead);
        multiply_lines<true>(a + k / Dots::kElements * Dots::kOfX, rows, lines, kInt8Span, end - k, count, sums + j);
      }
    }
  }

  template <bool kFromCache = false>
  void multiply_lines(const float* a, int64_t rows, const T* b, int64_t step, int64_t K, int64_t columns, float* sums) const {
    const auto multiply = [&]<int kRows>() HWY_ATTR {
      dot_lines<Dots, kRows, kFromCache>(b, step, columns, K, a, floats_of_x<Dots>(p_.K), sums, kMostColumns);
    };
    switch (rows) {
      case 1: return multiply.template operator()<1>();
      case 2: return multiply.template operator()<2>();
      case 3: return multiply.template operator()<3>();
      default: return multiply.template operator()<4>();
    }
  }

  void multiply_columns(const float* a, int64_t rows, const T* b, int64_t columns, float* sums) const {
    const int64_t floats = floats_of_x<Dots>(p_.K), row = p_.b.row, words = ceil_div(p_.K, kRowsOfWord);
    int64_t k = 0;
    for (; k + kSteps <= words; k += kSteps)
      for (int64_t r = 0; r < rows; ++r)
        add_steps<Dots, kSteps>(a + r * floats + k, b + k * kRowsOfWord * row, row, columns, (k + kSteps) * kRowsOfWord <= p_.K,
                                sums + r * kMostColumns);
    for (; k < words; ++k)
      for (int64_t r = 0; r < rows; ++r)
        add_steps<Dots, 1>(a + r * floats + k, b + k * kRowsOfWord * row, row, columns, (k + 1) * kRowsOfWord <= p_.K,
                           sums + r * kMostColumns);
  }

  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Finish<C> finish_;
  const float* x_;
  ScratchSlots* const widened_;
  int64_t run_, runs_;
};

// Equation: c = f(alpha op(A) op(B) + beta C + bias) for M <= 4, for each matmul of a group that shares A.
// Layout:   A, B, C row-major with any row stride; matrices of a batch at any distance.
// Order:    as every matmul's (order.h): k in turn from beta C (or 0), by elements, pairs or blocks of 32.
//           Tasks are runs of columns, their length by N alone; those of a member follow those of the member before.
// Requires: 1 to MatmulGroupArgs::kMost members; at most kSkinnyRows rows per B; no int8 B with AMX. K = 0 gives f(beta C + bias).
// Traffic:  one read of A and B (int8: as stored), one write of C (and one read where beta is not 0).
template <class Matmul, class... Scratch>
void run_skinny(Stream& stream, std::span<const MatmulArgs> group, const float* x, Scratch*... scratch) {
  std::optional<Matmul> members[MatmulGroupArgs::kMost];
  int64_t before[MatmulGroupArgs::kMost], tasks = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    before[i] = tasks;
    tasks += members[i].emplace(group[i], x, scratch...).tasks();
  }
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    size_t i = group.size() - 1;
    while (before[i] > task) --i;
    members[i]->run(task - before[i]);
  });
}

template <class Dots, class C>
void multiply_skinny_by(Stream& stream, std::span<const MatmulArgs> group) {
  const MatmulPlan p = plan(group.front());
  const Scratch<float> x(stream, p.batch() * p.M * floats_of_x<Dots>(p.K));
  copy_rows<Dots>(stream, group.front(), p, x.data());
  ScratchSlots widened(stream, group.front().scales ? SkinnyMatmul<Dots, C>::kWidenedFloats : 0);
  run_skinny<SkinnyMatmul<Dots, C>>(stream, group, x.data(), &widened);
}

template <class T, class C>
void multiply_skinny(Stream& stream, std::span<const MatmulArgs> group) {
  if constexpr (std::is_same_v<T, float>) {
    return multiply_skinny_by<FloatDots, C>(stream, group);
  } else {
#if WEFT_HAS_DOT
    if (bf16_dot() == Bf16Dot::hardware) return multiply_skinny_by<PairDots, C>(stream, group);
#endif
    if (bf16_dot() == Bf16Dot::emulated) return multiply_skinny_by<EmulatedPairDots, C>(stream, group);
    if (bf16_dot() == Bf16Dot::amx || bf16_dot() == Bf16Dot::emulated_amx) {
      const SkinnyAmxRows x(stream, group.front());
      return run_skinny<SkinnyAmxMatmul<C>>(stream, group, x.data());
    }
    multiply_skinny_by<WidenedDots, C>(stream, group);
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
