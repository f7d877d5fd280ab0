// Random words as weft/base/philox.h defines them: word i of a call is word i mod 4 of block i / 4.
#pragma once

#include <metal_stdlib>

namespace weft {

// {key_lo, key_hi, step_lo, step_hi}, read once by each simdgroup; every thread of it calls this.
inline uint4 random_state(device const uint* state, uint thread_index) {
  const uint mine = thread_index % 32 < 4 ? state[thread_index % 32] : 0u;
  return uint4(metal::simd_broadcast(mine, 0), metal::simd_broadcast(mine, 1), metal::simd_broadcast(mine, 2),
               metal::simd_broadcast(mine, 3));
}

inline uint4 random_block(uint4 state, uint site, long block) {
  uint4 c = uint4(uint(block), site, state.z, state.w);
  uint2 key = uint2(state.x, state.y);
  for (int round = 0; round < 10; ++round) {
    const uint m0 = 0xD2511F53u, m1 = 0xCD9E8D57u;  // multipliers
    c = uint4(metal::mulhi(m1, c.z) ^ c.y ^ key.x, m1 * c.z, metal::mulhi(m0, c.x) ^ c.w ^ key.y, m0 * c.x);
    key += uint2(0x9E3779B9u, 0xBB67AE85u);  // Weyl increments
  }
  return c;
}

// [0, 1) in steps of 2^-24 (the literal, exactly): every value is exact in f32.
inline float unit_float(uint bits) { return float(bits >> 8) * 5.9604644775390625e-8f; }

}  // namespace weft
