// The bf16 dot product of AVX512_BF16, which is in none of the instruction sets that the other loops are compiled for.
#include "bench/ceilings_cpu.h"
#include "weft/tile/cpu/bf16_dot.h"

namespace weft::bench {

bool has_bf16_dot() { return cpu::bf16_dot() == cpu::Bf16Dot::hardware; }

}  // namespace weft::bench

#if defined(__x86_64__)
#include <immintrin.h>

namespace weft::bench {

__attribute__((target("avx512f,avx512bw,avx512bf16"))) float bf16_dot_chain(int64_t steps) {
  constexpr int kChains = 12;
  const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80), b = (__m512bh)_mm512_set1_epi16(0x3a80);  // 1 and 2^-10
  __m512 acc[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(float(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
  }
  __m512 total = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, acc[i]);
  return _mm512_cvtss_f32(total);
}

}  // namespace weft::bench

#else

namespace weft::bench {

float bf16_dot_chain(int64_t) { return 0; }

}  // namespace weft::bench

#endif
