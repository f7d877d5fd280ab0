// Sixteen floats, on any vector unit: one register on AVX-512, two on AVX2, four on NEON.
//
// Why sixteen everywhere: a reduction that keeps sixteen partial sums and folds them in one fixed tree gives the same
// bits whatever the register width, and sixteen floats are one cache line. Arithmetic is per lane, FMA only where
// written (-ffp-contract=off), min and max are compare-and-select, so lanes agree across instruction sets too.
//
// This header is compiled once per Highway target: include it after <hwy/foreach_target.h>.

#if defined(WEFT_TILE_CPU_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_SIMD_H_
#undef WEFT_TILE_CPU_SIMD_H_
#else
#define WEFT_TILE_CPU_SIMD_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "weft/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

inline constexpr int kBlock = 16;
inline constexpr int kLanes = int(HWY_LANES(float) < 16 ? HWY_LANES(float) : 16);
inline constexpr int kParts = kBlock / kLanes;

struct F32x16 {
  V part[kParts];
};
struct Mask16 {
  Mask part[kParts];
};

// f applied to each register of the block(s).
template <class F>
HWY_INLINE F32x16 map(F f, F32x16 a) {
  for (int i = 0; i < kParts; ++i) a.part[i] = f(a.part[i]);
  return a;
}
template <class F>
HWY_INLINE F32x16 map(F f, F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = f(a.part[i], b.part[i]);
  return a;
}

HWY_INLINE F32x16 splat(float value) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::Set(D(), value);
  return r;
}
HWY_INLINE F32x16 zero() { return splat(0.0f); }

HWY_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Div(a.part[i], b.part[i]);
  return a;
}
// a * b + c, rounded once.
HWY_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return a;
}
// c - a * b, rounded once.
HWY_INLINE F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::NegMulAdd(a.part[i], b.part[i], c.part[i]);
  return a;
}
HWY_INLINE F32x16 sqrt(F32x16 a) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Sqrt(a.part[i]);
  return a;
}

HWY_INLINE Mask16 operator<(F32x16 a, F32x16 b) {
  Mask16 m;
  for (int i = 0; i < kParts; ++i) m.part[i] = hn::Lt(a.part[i], b.part[i]);
  return m;
}
HWY_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  for (int i = 0; i < kParts; ++i) yes.part[i] = hn::IfThenElse(m.part[i], yes.part[i], no.part[i]);
  return yes;
}
// The larger of the two; NaN if either is NaN.
HWY_INLINE F32x16 max(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) {
    const V larger = hn::IfThenElse(hn::Lt(a.part[i], b.part[i]), b.part[i], a.part[i]);  // keeps a NaN of a
    a.part[i] = hn::IfThenElse(hn::IsNaN(b.part[i]), b.part[i], larger);
  }
  return a;
}
// The larger of two numbers; with a NaN, either of the two.
HWY_INLINE F32x16 max_number(F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Max(a.part[i], b.part[i]);
  return a;
}
// Lanes [0, n) of a, the rest from b.
HWY_INLINE F32x16 first_n(int64_t n, F32x16 a, F32x16 b) {
  for (int i = 0; i < kParts; ++i) {
    const int64_t left = n - i * kLanes;
    const Mask keep = hn::FirstN(D(), size_t(left < 0 ? 0 : left < kLanes ? left : kLanes));
    a.part[i] = hn::IfThenElse(keep, a.part[i], b.part[i]);
  }
  return a;
}

// ---- memory: f32, bf16 and f16 come in as f32; stores round to nearest even

#define WEFT_PERMUTES_WORDS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
#if WEFT_PERMUTES_WORDS
// AVX-512 moves sixteen words to or from the upper halves of sixteen lanes in one instruction: lane i has words 2 i, 2 i + 1.
alignas(64) inline constexpr uint16_t kToUpper[32] = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                                                      0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
alignas(64) inline constexpr uint16_t kFromUpper[32] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
#endif

HWY_INLINE V load_part(const float* p) { return hn::LoadU(D(), p); }
HWY_INLINE V load_part(const bf16* p) {
#if WEFT_PERMUTES_WORDS
  const __m512i half = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return V{_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, _mm512_load_si512(kToUpper), half))};
#else
  const auto half = hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), half)));
#endif
}
HWY_INLINE V load_part(const f16* p) {
  return hn::PromoteTo(D(), hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(p)));
}
// A register as the 16 bits per element that it rounds to: the upper halves after adding just under half of their last
// place, or half when they are odd. A NaN stays one, made quiet.
HWY_INLINE auto to_bf16(V v) {
  const DU du;
  const hn::Rebind<uint16_t, DI> halves;
  const auto u = hn::BitCast(du, v);
#if WEFT_PERMUTES_WORDS
  constexpr int kQuietNaN = 0x22;  // vfixupimm's table: a quiet (0) or signalling (1) NaN gives it quiet (2), the rest stay
  const __mmask16 odd = _mm512_test_epi32_mask(u.raw, _mm512_set1_epi32(0x10000));
  const __m512i even = _mm512_add_epi32(u.raw, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(even, odd, u.raw, _mm512_set1_epi32(0x8000));
  const __m512 kept = _mm512_fixupimm_ps(_mm512_castsi512_ps(rounded), v.raw, _mm512_set1_epi32(kQuietNaN), 0);
  const __m512i words = _mm512_permutexvar_epi16(_mm512_load_si512(kFromUpper), _mm512_castps_si512(kept));
  return hn::Vec<decltype(halves)>{_mm512_castsi512_si256(words)};
#else
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(u, hn::Set(du, 0x7fffu)), odd);
  const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Or(u, hn::Set(du, 0x400000u)), rounded);
  return hn::DemoteTo(halves, hn::BitCast(DI(), hn::ShiftRight<16>(kept)));
#endif
}
HWY_INLINE auto to_f16(V v) { return hn::BitCast(hn::Rebind<uint16_t, DI>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)); }
HWY_INLINE void store_part(V v, float* p) { hn::StoreU(v, D(), p); }
HWY_INLINE void store_part(V v, bf16* p) { hn::StoreU(to_bf16(v), hn::Rebind<uint16_t, DI>(), reinterpret_cast<uint16_t*>(p)); }
HWY_INLINE void store_part(V v, f16* p) { hn::StoreU(to_f16(v), hn::Rebind<uint16_t, DI>(), reinterpret_cast<uint16_t*>(p)); }
// Non-temporal stores; p is aligned to the bytes written. hwy::FlushStream() before other threads read.
HWY_INLINE void stream_part(V v, float* p) { hn::Stream(v, D(), p); }
HWY_INLINE void stream_part(V v, bf16* p) { hn::Stream(to_bf16(v), hn::Rebind<uint16_t, DI>(), reinterpret_cast<uint16_t*>(p)); }
HWY_INLINE void stream_part(V v, f16* p) { hn::Stream(to_f16(v), hn::Rebind<uint16_t, DI>(), reinterpret_cast<uint16_t*>(p)); }

template <class T>
HWY_INLINE F32x16 load(const T* p) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = load_part(p + i * kLanes);
  return r;
}
template <class T>
HWY_INLINE void stream(F32x16 v, T* p) {
  for (int i = 0; i < kParts; ++i) stream_part(v.part[i], p + i * kLanes);
}
template <class T>
HWY_INLINE void store(F32x16 v, T* p) {
  for (int i = 0; i < kParts; ++i) store_part(v.part[i], p + i * kLanes);
}
// The first n < 16 elements, zeros after them; nothing past p + n is read or written.
template <class T>
HWY_INLINE F32x16 load_n(const T* p, int64_t n) {
  alignas(64) T block[kBlock] = {};
  std::memcpy(block, p, size_t(n) * sizeof(T));
  return load(block);
}
template <class T>
HWY_INLINE void store_n(F32x16 v, T* p, int64_t n) {
  alignas(64) T block[kBlock];
  store(v, block);
  std::memcpy(p, block, size_t(n) * sizeof(T));
}

// ---- folding sixteen lanes into one, in one fixed tree: lane i with i + 8, then + 4, + 2, + 1

template <class F>
HWY_INLINE float fold_four(hn::Vec<hn::CappedTag<float, 4>> v, F combine) {
  v = combine(v, hn::Shuffle1032(v));
  return hn::GetLane(combine(v, hn::Shuffle2301(v)));
}
// (The types are template parameters: operations that a register of four lacks are not instantiated there.)
template <class F, class Half>
HWY_INLINE float fold_eight(Half v, F combine) {
  const hn::CappedTag<float, 4> four;
  return fold_four(combine(hn::LowerHalf(four, v), hn::UpperHalf(four, v)), combine);
}
template <class F, class Block = F32x16>
HWY_INLINE float fold(Block v, F combine) {
  const hn::CappedTag<float, 8> eight;
  if constexpr (kParts == 4)
    return fold_four(combine(combine(v.part[0], v.part[2 % kParts]), combine(v.part[1 % kParts], v.part[3 % kParts])), combine);
  else if constexpr (kParts == 2)
    return fold_eight(combine(v.part[0], v.part[1 % kParts]), combine);
  else
    return fold_eight(combine(hn::LowerHalf(eight, v.part[0]), hn::UpperHalf(eight, v.part[0])), combine);
}
HWY_INLINE float sum(F32x16 v) {
  return fold(v, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
HWY_INLINE float max_lane(F32x16 v) {
  return fold(v, [](auto a, auto b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
