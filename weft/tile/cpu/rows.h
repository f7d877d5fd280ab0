// Walking a row sixteen elements at a time, and reducing it in an order that depends on its length alone.

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

// A block of a row: `n` is 16 except in the last one. Loads give zeros past the end, stores write n elements.
struct At {
  int64_t i;
  int64_t n;

  template <class T>
  HWY_INLINE F32x16 load(const T* row) const {
    return n == kBlock ? HWY_NAMESPACE::load(row + i) : load_n(row + i, n);
  }
  template <class T>
  HWY_INLINE void store(F32x16 v, T* row) const {
    n == kBlock ? HWY_NAMESPACE::store(v, row + i) : store_n(v, row + i, n);
  }
  // Past the caches, where that was found to pay (writes_past_caches of kernel.h).
  template <class T>
  HWY_INLINE void put(F32x16 v, T* row, bool past_caches) const {
    past_caches && n == kBlock ? HWY_NAMESPACE::stream(v, row + i) : store(v, row);
  }
  // Asks for what another row has here.
  template <class T>
  HWY_INLINE void prefetch(const T* row) const {
    hwy::Prefetch(row + i);
  }
};

// body(At) for each block of n elements, four to a turn. Mark the lambda HWY_ATTR. One that stores captures by value: what
// it refers to might be what it stores to, and would be loaded again for each block.
template <class F>
HWY_INLINE void for_each_block(int64_t n, F body) {
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock)
    for (int a = 0; a < 4; ++a) body(At{i + a * kBlock, kBlock});
  for (; i + kBlock <= n; i += kBlock) body(At{i, kBlock});
  if (i < n) body(At{i, n - i});
}

// Carries accumulators along a row: acc = step(acc, At). Block b goes to accumulator b mod 4 (four chains hide the latency
// of one), then (0 + 1) + (2 + 3), then the sixteen lanes by fold's tree. The last, partial block goes to accumulator 0,
// whose other lanes stay as they are. An accumulator is one block or a struct of several (with first_n).
template <class Acc, class Step, class Combine>
HWY_INLINE Acc accumulate_blocks(int64_t n, Acc start, Step step, Combine combine) {
  Acc acc[4] = {start, start, start, start};
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock)
    for (int a = 0; a < 4; ++a) acc[a] = step(acc[a], At{i + a * kBlock, kBlock});
  for (int a = 0; a < 3; ++a) {  // at most three, counted so that the accumulators stay in registers
    if (i + kBlock > n) break;
    acc[a] = step(acc[a], At{i, kBlock});
    i += kBlock;
  }
  if (i < n) acc[0] = first_n(n - i, step(acc[0], At{i, n - i}), acc[0]);
  return combine(combine(acc[0], acc[1]), combine(acc[2], acc[3]));
}

// The same of a term that is combined with the accumulator.
template <class Term, class Combine>
HWY_INLINE F32x16 reduce_blocks(int64_t n, float identity, Term term, Combine combine) {
  return accumulate_blocks(n, splat(identity), [&](F32x16 acc, At at) HWY_ATTR { return combine(acc, term(at)); }, combine);
}

// acc = step(acc, At), starting at 0, then the sum of all accumulators: what adds a product can be an fma.
template <class Step>
HWY_INLINE float row_accumulate(int64_t n, Step step) {
  return sum(accumulate_blocks(n, zero(), step, [](F32x16 a, F32x16 b) HWY_ATTR { return a + b; }));
}
template <class Term>
HWY_INLINE float row_sum(int64_t n, Term term) {
  return row_accumulate(n, [&](F32x16 acc, At at) HWY_ATTR { return acc + term(at); });
}
// Two sums in one pass over the row.
struct TwoSums {
  F32x16 first, second;
};
HWY_INLINE TwoSums first_n(int64_t n, TwoSums a, TwoSums b) { return {first_n(n, a.first, b.first), first_n(n, a.second, b.second)}; }
template <class Step>
HWY_INLINE TwoSums row_accumulate_two(int64_t n, Step step) {
  return accumulate_blocks(n, TwoSums{zero(), zero()}, step,
                           [](TwoSums a, TwoSums b) HWY_ATTR { return TwoSums{a.first + b.first, a.second + b.second}; });
}
template <class Term>
HWY_INLINE float row_max(int64_t n, Term term) {
  return max_lane(reduce_blocks(n, -HUGE_VALF, term, [](F32x16 a, F32x16 b) HWY_ATTR { return max(a, b); }));
}
// The same of a row without NaN, in a quarter of the operations. A row with NaN gives NaN or some element above -infinity,
// which is enough where the NaN comes back by way of a sum.
template <class Term>
HWY_INLINE float row_max_number(int64_t n, Term term) {
  const float m = max_lane(reduce_blocks(n, -HUGE_VALF, term, [](F32x16 a, F32x16 b) HWY_ATTR { return max_number(a, b); }));
  return m == -HUGE_VALF ? row_max(n, term) : m;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
