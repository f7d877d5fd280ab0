#include "weft/tile/cpu/token_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/tile/cpu/token_weights.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/simd.h"

#ifndef WEFT_TILE_CPU_TOKEN_WEIGHTS_ONCE_
#define WEFT_TILE_CPU_TOKEN_WEIGHTS_ONCE_
namespace weft::cpu {

inline constexpr auto kInverseFactorials = [] {
  std::array<double, 14> values{1};
  double factorial = 1;
  for (int i = 1; i < 14; ++i) values[size_t(i)] = 1 / (factorial *= i);
  return values;
}();

}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

using D64 = hn::CappedTag<double, 8>;
using I64 = hn::RebindToSigned<D64>;
using Half = hn::Rebind<float, D64>;  // the floats that a register of doubles is made from
using V64 = hn::Vec<D64>;
using VI64 = hn::Vec<I64>;

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

// body(register, index of its first element) over n elements; the last register is filled up with `filler`.
template <class Tag, class T, class F>
HWY_INLINE void for_each_register(Tag d, const T* from, int64_t n, T filler, F body) {
  constexpr int64_t kStep = int64_t(hn::MaxLanes(Tag()));
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) body(hn::LoadU(d, from + i), i);
  if (i == n) return;
  alignas(64) T last[kStep];
  std::fill_n(last, kStep, filler);
  std::memcpy(last, from + i, size_t(n - i) * sizeof(T));
  body(hn::Load(d, last), i);
}

// Stores the lanes of v that `keep` has, one after the other, and returns their number. A whole register may be written.
template <class Tag, class Vec, class M, class T = hn::TFromD<Tag>>
HWY_INLINE int64_t store_kept(Tag d, Vec v, M keep, T* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // hn::Compress reads a table, which g++ copies to the stack each time
  if constexpr (sizeof(T) == 8)
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(keep.raw, v.raw));
  else
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(keep.raw, v.raw));
  return int64_t(hn::CountTrue(d, keep));
#else
  alignas(64) T lanes[hn::MaxLanes(Tag())];
  uint8_t bits[8] = {};
  hn::Store(v, d, lanes);
  hn::StoreMaskBits(d, keep, bits);
  int64_t count = 0;
  for (size_t i = 0; i < hn::MaxLanes(Tag()); ++i) {
    to[count] = lanes[i];
    count += (bits[0] >> i) & 1;
  }
  return count;
#endif
}

HWY_INLINE uint64_t sum_lanes(VI64 v) { return uint64_t(hn::GetLane(hn::SumOfLanes(I64(), v))); }

// A block at a time: only a block with a larger value is searched for it.
int64_t largest_logit(const float* logits, int64_t n) {
  constexpr int64_t kRun = 2048;
  const D d;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  Mask usable = hn::Lt(hn::Zero(d), infinity);  // all lanes: no +inf or NaN yet
  float most = kNothing;
  int64_t block = 0;
  for (int64_t first = 0; first < n; first += kRun) {
    V largest = hn::Set(d, kNothing);
    for_each_register(d, logits + first, std::min(kRun, n - first), kNothing, [&](V v, int64_t) HWY_ATTR {
      usable = hn::And(usable, hn::Lt(v, infinity));
      largest = hn::Max(largest, v);
    });
    const float of_block = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (of_block > most) most = of_block, block = first;
  }
  if (!hn::AllTrue(d, usable)) return -1;
  return std::find(logits + block, logits + std::min(n, block + kRun), most) - logits;
}

int64_t copy_logits_above(float least, const float* logits, int64_t n, float* out) {
  const D d;
  const V limit = hn::Set(d, least);
  int64_t count = 0;
  for_each_register(d, logits, n, kNothing, [&](V v, int64_t) HWY_ATTR {
    const auto keep = hn::Lt(limit, v);
    if (hn::AllFalse(d, keep)) return;
    count += store_kept(d, v, keep, out + count);
  });
  return count;
}

// Registers whose exponentials are computed side by side: one is a chain of 30 dependent operations.
inline constexpr int kChains = 4;
struct Chains {
  V64 part[kChains];
};

// e^x for x <= 0 with the same bits on every machine, which a C library does not promise: x = n ln 2 + r, the Taylor
// series of e^r to r^13 (|r| <= 0.35: below 2^-57), times 2^n. Below -708 it stays at e^-708. Nothing is fused.
HWY_INLINE Chains exp_of_nonpositive(Chains x) {
  const D64 d;
  const hn::RebindToUnsigned<D64> du;
  const V64 least = hn::Set(d, -708), rounder = hn::Set(d, 0x1.8p52);  // leaves the nearest integer in the low bits of a sum
  Chains shifted, r, e;
  for (int i = 0; i < kChains; ++i) {
    const V64 at_least = hn::IfThenElse(hn::Lt(least, x.part[i]), x.part[i], least);
    shifted.part[i] = hn::Add(hn::Mul(at_least, hn::Set(d, 0x1.71547652b82fep0)), rounder);
    const V64 n = hn::Sub(shifted.part[i], rounder), high = hn::Mul(n, hn::Set(d, 0x1.62e42fee00000p-1));
    r.part[i] = hn::Sub(hn::Sub(at_least, high), hn::Mul(n, hn::Set(d, 0x1.a39ef35793c76p-33)));
    e.part[i] = hn::Set(d, kInverseFactorials[13]);
  }
  for (int power = 12; power >= 0; --power)
    for (int i = 0; i < kChains; ++i) e.part[i] = hn::Add(hn::Set(d, kInverseFactorials[size_t(power)]), hn::Mul(e.part[i], r.part[i]));
  for (int i = 0; i < kChains; ++i) {
    const auto exponent = hn::ShiftLeft<52>(hn::Add(hn::BitCast(du, shifted.part[i]), hn::Set(du, 1023)));
    e.part[i] = hn::Mul(e.part[i], hn::BitCast(d, exponent));
  }
  return e;
}

// floor(v) of 0 <= v < 2^62.
HWY_INLINE VI64 whole_part(V64 v) {
  const I64 di;
#if HWY_TARGET == HWY_AVX2
  // AVX2 converts no double to 64 bits: the multiple of 2^32 and the rest are read from the low bits of sums with 2^52.
  const D64 d;
  const V64 rounder = hn::Set(d, 0x1p52);
  const V64 high = hn::Floor(hn::Mul(v, hn::Set(d, 0x1p-32))), low = hn::Floor(hn::Sub(v, hn::Mul(high, hn::Set(d, 0x1p32))));
  const VI64 low_bits = hn::Xor(hn::BitCast(di, hn::Add(low, rounder)), hn::BitCast(di, rounder));
  return hn::Add(hn::ShiftLeft<32>(hn::BitCast(di, hn::Add(high, rounder))), low_bits);
#else
  return hn::ConvertTo(di, v);
#endif
}

// body(weights, index of the first of them) over the registers of logits of which one is `least` or more.
template <class F>
HWY_INLINE void for_each_weight(const TokenWeights& of, const float* logits, int64_t n, F body) {
  const D64 d;
  const I64 di;
  constexpr int64_t kLanes64 = int64_t(hn::MaxLanes(D64())), kStep = kChains * kLanes64;
  const V64 largest = hn::Set(d, of.largest), temperature = hn::Set(d, of.temperature), one = hn::Set(d, double(int64_t{1} << of.bits));
  const V64 least = hn::Set(d, double(of.least));
  alignas(64) float last[kStep];
  for (int64_t i = 0; i < n; i += kStep) {
    const float* from = logits + i;
    if (n - i < kStep) {
      std::fill_n(last, kStep, kNothing);
      from = static_cast<const float*>(std::memcpy(last, from, size_t(n - i) * sizeof(float)));
    }
    Chains x;
    hn::Mask<D64> weighs[kChains];
    for (int c = 0; c < kChains; ++c) {
      x.part[c] = hn::PromoteTo(d, hn::LoadU(Half(), from + c * kLanes64));
      weighs[c] = hn::Le(least, x.part[c]);
    }
    if (hn::AllFalse(d, hn::Or(hn::Or(weighs[0], weighs[1]), hn::Or(weighs[2], weighs[3])))) continue;
    for (int c = 0; c < kChains; ++c) x.part[c] = hn::Div(hn::Sub(x.part[c], largest), temperature);
    const Chains e = exp_of_nonpositive(x);
    for (int c = 0; c < kChains; ++c)
      body(hn::IfThenElseZero(hn::RebindMask(di, weighs[c]), whole_part(hn::Mul(one, e.part[c]))), i + c * kLanes64);
  }
}

uint64_t sum_of_weights(const TokenWeights& of, const float* logits, int64_t n) {
  VI64 sum = hn::Zero(I64());
  for_each_weight(of, logits, n, [&](VI64 w, int64_t) HWY_ATTR { sum = hn::Add(sum, w); });
  return sum_lanes(sum);
}

Weighed write_weights(const TokenWeights& of, const float* logits, int64_t n, int64_t first, uint64_t from, int64_t* ids,
                      uint64_t* weights) {
  const I64 d;
  const VI64 below = hn::Set(d, int64_t(from) - 1), iota = hn::Iota(d, first);
  VI64 sum = hn::Zero(d);
  int64_t count = 0;
  for_each_weight(of, logits, n, [&](VI64 w, int64_t i) HWY_ATTR {
    sum = hn::Add(sum, w);
    const auto keep = hn::Lt(below, w);
    if (hn::AllFalse(d, keep)) return;
    store_kept(d, hn::Add(iota, hn::Set(d, i)), keep, ids + count);
    count += store_kept(d, w, keep, reinterpret_cast<int64_t*>(weights) + count);
  });
  return {sum_lanes(sum), count};
}

WeightsAround weights_around(uint64_t pivot, const uint64_t* weights, int64_t n) {
  const I64 d;
  const VI64 middle = hn::Set(d, int64_t(pivot));
  VI64 above = hn::Zero(d), equal = hn::Zero(d);
  for_each_register(d, reinterpret_cast<const int64_t*>(weights), n, int64_t{-1}, [&](VI64 v, int64_t) HWY_ATTR {
    above = hn::Add(above, hn::IfThenElseZero(hn::Lt(middle, v), v));
    equal = hn::Sub(equal, hn::VecFromMask(d, hn::Eq(middle, v)));
  });
  return {sum_lanes(above), sum_lanes(equal)};
}

int64_t copy_weights(uint64_t from, uint64_t to, const uint64_t* weights, int64_t n, uint64_t* out) {
  const I64 d;
  const VI64 low = hn::Set(d, int64_t(from) - 1), high = hn::Set(d, int64_t(to));
  int64_t count = 0;
  for_each_register(d, reinterpret_cast<const int64_t*>(weights), n, int64_t{-1}, [&](VI64 v, int64_t) HWY_ATTR {
    const auto keep = hn::And(hn::Lt(low, v), hn::Lt(v, high));
    count += store_kept(d, v, keep, reinterpret_cast<int64_t*>(out) + count);
  });
  return count;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(largest_logit);
HWY_EXPORT(copy_logits_above);
HWY_EXPORT(sum_of_weights);
HWY_EXPORT(write_weights);
HWY_EXPORT(weights_around);
HWY_EXPORT(copy_weights);

int64_t largest_logit(const float* logits, int64_t n) { return HWY_DYNAMIC_DISPATCH(largest_logit)(logits, n); }
int64_t copy_logits_above(float least, const float* logits, int64_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(copy_logits_above)(least, logits, n, out);
}
uint64_t sum_of_weights(const TokenWeights& of, const float* logits, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(sum_of_weights)(of, logits, n);
}
Weighed write_weights(const TokenWeights& of, const float* logits, int64_t n, int64_t first, uint64_t from, int64_t* ids,
                      uint64_t* weights) {
  return HWY_DYNAMIC_DISPATCH(write_weights)(of, logits, n, first, from, ids, weights);
}
WeightsAround weights_around(uint64_t pivot, const uint64_t* weights, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(weights_around)(pivot, weights, n);
}
int64_t copy_weights(uint64_t from, uint64_t to, const uint64_t* weights, int64_t n, uint64_t* out) {
  return HWY_DYNAMIC_DISPATCH(copy_weights)(from, to, weights, n, out);
}
}  // namespace weft::cpu
#endif
