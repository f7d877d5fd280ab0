// Iterates over a row sixteen elements at a time, and reduces it in an order that depends on its length alone.

#if defined(WEFT_TILE_CPU_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ROWS_H_
#undef WEFT_TILE_CPU_ROWS_H_
#else
#define WEFT_TILE_CPU_ROWS_H_
#endif

#include <hwy/cache_control.h>

#include "weft/tile/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// A block of a row: `n` is 16 except in the last one. Loads return zeros past the end, stores write n elements. `place` is its
// number modulo 4 in loops unrolled by four, 0 elsewhere: a compile-time constant.
struct At {
  int64_t i;
  int64_t n;
  int place = 0;

  template <class T>
  HWY_INLINE F32x16 load(const T* row) const {
    return n == kBlock ? HWY_NAMESPACE::load(row + i) : load_n(row + i, n);
  }
  template <class T>
  HWY_INLINE void store(F32x16 v, T* row) const {
    n == kBlock ? HWY_NAMESPACE::store(v, row + i) : store_n(v, row + i, n);
  }
  // Non-temporal if the launch is larger than the caches (stores_non_temporally of kernel.h).
  template <class T>
  HWY_INLINE void put(F32x16 v, T* row, bool non_temporal) const {
    non_temporal&& n == kBlock ? HWY_NAMESPACE::stream(v, row + i) : store(v, row);
  }
  // Prefetches the elements `ahead` from here: once for the blocks that share a cache line.
  template <class T>
  HWY_INLINE void prefetch(const T* row, int64_t ahead = 0) const {
    constexpr int kBlocksOfLine = int(64 / (kBlock * sizeof(T)));
    if (place % kBlocksOfLine == 0) hwy::Prefetch(row + i + ahead);
  }
};

// body(At) for each block of n elements, unrolled by four. Mark the lambda HWY_ATTR. A lambda that stores captures by value: a
// reference might alias what it stores to, and would be loaded again for each block.
template <class F>
HWY_INLINE void for_each_block(int64_t n, F body) {
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock) {
    body(At{i, kBlock, 0});
    body(At{i + kBlock, kBlock, 1});
    body(At{i + 2 * kBlock, kBlock, 2});
    body(At{i + 3 * kBlock, kBlock, 3});
  }
  for (; i + kBlock <= n; i += kBlock) body(At{i, kBlock});
  if (i < n) body(At{i, n - i});
}

// Carries accumulators along a row: acc = step(acc, At). Block b goes to accumulator b mod 4 (four chains hide the latency
// of one), then (0 + 1) + (2 + 3), then the sixteen lanes by fold's tree. The last, partial block goes to accumulator 0,
// whose other lanes stay as they are. An accumulator is one block or a struct of several (with first_n).
template <class Acc, class Step, class Combine>
HWY_INLINE Acc accumulate_blocks(int64_t n, Acc start, Step step, Combine combine) {
  Acc a = start, b = start, c = start, d = start;  // not an array: they stay in registers
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock) {
    a = step(a, At{i, kBlock, 0});
    b = step(b, At{i + kBlock, kBlock, 1});
    c = step(c, At{i + 2 * kBlock, kBlock, 2});
    d = step(d, At{i + 3 * kBlock, kBlock, 3});
  }
  const int64_t left = n - i;
  if (left >= kBlock) a = step(a, At{i, kBlock});
  if (left >= 2 * kBlock) b = step(b, At{i + kBlock, kBlock});
  if (left >= 3 * kBlock) c = step(c, At{i + 2 * kBlock, kBlock});
  if (const int64_t rest = left % kBlock) a = first_n(rest, step(a, At{n - rest, rest}), a);
  return combine(combine(a, b), combine(c, d));
}

// The same of a term that is combined with the accumulator.
template <class Term, class Combine>
HWY_INLINE F32x16 reduce_blocks(int64_t n, float identity, Term term, Combine combine) {
  return accumulate_blocks(n, splat(identity), [&](F32x16 acc, At at) HWY_ATTR { return combine(acc, term(at)); }, combine);
}

// acc = step(acc, At), starting at 0, then the sum of all accumulators. The step may be an fma.
template <class Step>
HWY_INLINE float row_accumulate(int64_t n, Step step) {
  return sum(accumulate_blocks(n, zero(), step, [](F32x16 a, F32x16 b) HWY_ATTR { return a + b; }));
}
template <class Term>
HWY_INLINE float row_sum(int64_t n, Term term) {
  return row_accumulate(n, [&](F32x16 acc, At at) HWY_ATTR { return acc + term(at); });
}
// N sums in one pass: of one row, or one of each of N rows.
template <int N>
struct RowSums {
  F32x16 of[N];
};
template <int N>
HWY_INLINE RowSums<N> first_n(int64_t n, RowSums<N> a, RowSums<N> b) {
  for (int k = 0; k < N; ++k) a.of[k] = first_n(n, a.of[k], b.of[k]);
  return a;
}
// acc = step(acc, At) as in row_accumulate; the caller folds each with sum().
template <int N, class Step>
HWY_INLINE RowSums<N> row_accumulate_several(int64_t n, Step step) {
  RowSums<N> start;
  for (int k = 0; k < N; ++k) start.of[k] = zero();
  return accumulate_blocks(n, start, step, [](RowSums<N> a, RowSums<N> b) HWY_ATTR {
    for (int k = 0; k < N; ++k) a.of[k] = a.of[k] + b.of[k];
    return a;
  });
}
template <class Term>
HWY_INLINE float row_max(int64_t n, Term term) {
  return max_lane(reduce_blocks(n, -HUGE_VALF, term, [](F32x16 a, F32x16 b) HWY_ATTR { return max(a, b); }));
}
// The same for a row without NaN, in a quarter of the operations. A row with NaN returns NaN or some element above -infinity, which is
// enough where a later sum includes the NaN.
template <class Term>
HWY_INLINE float row_max_number(int64_t n, Term term) {
  const float m = max_lane(reduce_blocks(n, -HUGE_VALF, term, [](F32x16 a, F32x16 b) HWY_ATTR { return max_number(a, b); }));
  return m == -HUGE_VALF ? row_max(n, term) : m;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
