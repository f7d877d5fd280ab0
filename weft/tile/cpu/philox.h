// Random words by the block of 64: word i of a call is word i mod 4 of the Philox block i / 4 (weft/base/philox.h).

#if defined(WEFT_TILE_CPU_PHILOX_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_PHILOX_H_
#undef WEFT_TILE_CPU_PHILOX_H_
#else
#define WEFT_TILE_CPU_PHILOX_H_
#endif

#include "weft/base/philox.h"
#include "weft/tile/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

inline constexpr int64_t kRandomWords = 64;

using U = hn::Vec<DU>;

// The low and the high halves of the products by `factor`: even lanes, then odd lanes, interleaved again.
HWY_INLINE void multiply_wide(U a, U factor, U& low, U& high) {
  const DU d;
  const hn::RepartitionToWide<DU> wide;
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), factor);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Words [first, first + 64) of the call (state, site); `first` is a multiple of 4. One counter a lane; integers
// alone, so the bits are philox()'s.
HWY_INLINE void random_words(const uint32_t* state, uint32_t site, int64_t first, uint32_t* words) {
  const DU d;
  const U m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  for (int part = 0; part < kParts; ++part) {
    U c0 = hn::Iota(d, uint32_t(first / 4) + uint32_t(part * kLanes)), c1 = hn::Set(d, site), c2 = hn::Set(d, state[2]),
      c3 = hn::Set(d, state[3]);
    uint32_t k0 = state[0], k1 = state[1];
    for (int round = 0; round < 10; ++round) {
      U low0, high0, low1, high1;
      multiply_wide(c0, m0, low0, high0);
      multiply_wide(c2, m1, low1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + part * 4 * kLanes);
  }
}

// unit_float() of sixteen words.
HWY_INLINE F32x16 unit_floats(const uint32_t* words) {
  F32x16 r;
  for (int i = 0; i < kParts; ++i) {
    const auto top = hn::BitCast(DI(), hn::ShiftRight<8>(hn::LoadU(DU(), words + i * kLanes)));  // below 2^24: exact
    r.part[i] = hn::Mul(hn::ConvertTo(D(), top), hn::Set(D(), 0x1p-24f));
  }
  return r;
}

// Which of sixteen words are below `limit`.
HWY_INLINE Mask16 below(const uint32_t* words, uint32_t limit) {
  Mask16 m;
  for (int i = 0; i < kParts; ++i) m.part[i] = hn::RebindMask(D(), hn::Lt(hn::LoadU(DU(), words + i * kLanes), hn::Set(DU(), limit)));
  return m;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
