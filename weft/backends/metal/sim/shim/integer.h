// <metal_integer>.
#pragma once

#include <weft_sim/vector.h>

namespace metal {

#define WEFT_SIM_BITS(T, U, bits)                                                                                                \
  WEFT_SIM_INLINE constexpr T popcount(T x) { return T(__builtin_popcountll((unsigned long long)(U(x)))); }                      \
  WEFT_SIM_INLINE constexpr T clz(T x) { return U(x) ? T(__builtin_clzll((unsigned long long)(U(x))) - (64 - bits)) : T(bits); } \
  WEFT_SIM_INLINE constexpr T ctz(T x) { return U(x) ? T(__builtin_ctzll((unsigned long long)(U(x)))) : T(bits); }               \
  WEFT_SIM_INLINE constexpr T rotate(T x, T by) {                                                                                \
    const U n = U(by) % bits;                                                                                                    \
    return n ? T(U(U(x) << n) | U(U(x) >> (bits - n))) : x;                                                                      \
  }
WEFT_SIM_BITS(short, ushort, 16)
WEFT_SIM_BITS(ushort, ushort, 16)
WEFT_SIM_BITS(int, uint, 32)
WEFT_SIM_BITS(uint, uint, 32)
WEFT_SIM_BITS(long, ulong, 64)
WEFT_SIM_BITS(ulong, ulong, 64)

WEFT_SIM_INLINE constexpr uint reverse_bits(uint x) { return __builtin_bitreverse32(x); }
WEFT_SIM_INLINE constexpr uint mulhi(uint a, uint b) { return uint((ulong(a) * b) >> 32); }
WEFT_SIM_INLINE constexpr int mulhi(int a, int b) { return int((long(a) * b) >> 32); }
WEFT_SIM_INLINE constexpr ulong mulhi(ulong a, ulong b) { return ulong(((unsigned __int128)(a)*b) >> 64); }
WEFT_SIM_INLINE constexpr long mulhi(long a, long b) { return long(((__int128)(a)*b) >> 64); }
WEFT_SIM_INLINE constexpr uint madhi(uint a, uint b, uint c) { return mulhi(a, b) + c; }
WEFT_SIM_INLINE constexpr uint absdiff(int a, int b) { return a > b ? uint(a) - uint(b) : uint(b) - uint(a); }
WEFT_SIM_INLINE constexpr uint absdiff(uint a, uint b) { return a > b ? a - b : b - a; }
WEFT_SIM_INLINE constexpr uint extract_bits(uint x, uint offset, uint count) {
  return count == 0 ? 0 : (x >> offset) & (count >= 32 ? ~0u : (1u << count) - 1u);
}

}  // namespace metal
