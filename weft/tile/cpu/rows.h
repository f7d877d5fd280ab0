// Walking a row sixteen elements at a time, and reducing it in an order that depends on its length alone.

#if defined(WEFT_TILE_CPU_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_ROWS_H_
#undef WEFT_TILE_CPU_ROWS_H_
#else
#define WEFT_TILE_CPU_ROWS_H_
#endif

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
};

// body(At) for each block of n elements. Mark the lambda HWY_ATTR.
template <class F>
HWY_INLINE void for_each_block(int64_t n, F body) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) body(At{i, kBlock});
  if (i < n) body(At{i, n - i});
}

// Reduces term(At) over a row. Block b goes to accumulator b mod 4 (four chains hide the latency of one), then
// (0 + 1) + (2 + 3), then the sixteen lanes by fold's tree. The last, partial block goes to accumulator 0, its missing
// lanes replaced by the identity.
template <class Term, class Combine>
HWY_INLINE F32x16 reduce_blocks(int64_t n, float identity, Term term, Combine combine) {
  F32x16 acc[4] = {splat(identity), splat(identity), splat(identity), splat(identity)};
  int64_t i = 0;
  for (; i + 4 * kBlock <= n; i += 4 * kBlock)
    for (int a = 0; a < 4; ++a) acc[a] = combine(acc[a], term(At{i + a * kBlock, kBlock}));
  for (int a = 0; i + kBlock <= n; i += kBlock, ++a) acc[a] = combine(acc[a], term(At{i, kBlock}));
  if (i < n) acc[0] = combine(acc[0], first_n(n - i, term(At{i, n - i}), splat(identity)));
  return combine(combine(acc[0], acc[1]), combine(acc[2], acc[3]));
}

template <class Term>
HWY_INLINE float row_sum(int64_t n, Term term) {
  return sum(reduce_blocks(n, 0.0f, term, [](F32x16 a, F32x16 b) HWY_ATTR { return a + b; }));
}
template <class Term>
HWY_INLINE float row_max(int64_t n, Term term) {
  return max_lane(reduce_blocks(n, -HUGE_VALF, term, [](F32x16 a, F32x16 b) HWY_ATTR { return max(a, b); }));
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
