// Chains of bf16 dot-product instructions, AVX512_BF16 or AMX, which no target of the other loops includes.
#include "bench/ceilings_cpu.h"
#include "weft/tile/cpu/amx.h"
#include "weft/tile/cpu/bf16_dot.h"

namespace weft::bench {

using cpu::Bf16Dot;

bool has_bf16_dot() { return cpu::bf16_dot() == Bf16Dot::hardware || cpu::bf16_dot() == Bf16Dot::amx; }

}  // namespace weft::bench

#if defined(__x86_64__)
#include <immintrin.h>

namespace weft::bench {
namespace {

constexpr int kDots = 12, kTiles = 4;

__attribute__((target("avx512f,avx512bw,avx512bf16"))) float dots(int64_t steps) {
  const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80), b = (__m512bh)_mm512_set1_epi16(0x3a80);  // 1 and 2^-10
  __m512 acc[kDots];
#pragma GCC unroll 12
  for (int i = 0; i < kDots; ++i) acc[i] = _mm512_set1_ps(float(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kDots; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
  }
  __m512 total = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < kDots; ++i) total = _mm512_add_ps(total, acc[i]);
  return _mm512_cvtss_f32(total);
}

// 16 rows of 32 bf16 values in (-2, 2), no two neighbours equal.
struct Numbers {
  alignas(64) uint16_t bits[cpu::kAmxRows * cpu::kAmxBlock];
  Numbers() {
    uint32_t state = 1;
    for (uint16_t& x : bits) state = state * 1664525u + 1013904223u, x = uint16_t((state >> 16 & 0x80ffu) | 0x3f00u);
  }
};

__attribute__((target("amx-tile,amx-bf16"))) float tiles(int64_t steps) {
  static const Numbers numbers;
  alignas(64) float sums[cpu::kAmxRows * cpu::kAmxColumns];
  const cpu::AmxTiles in_use;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, numbers.bits, 64);
  _tile_loadd(5, numbers.bits, 64);
  _tile_loadd(6, numbers.bits, 64);
  _tile_loadd(7, numbers.bits, 64);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  return sums[0];
}

}  // namespace

double dot_flops_per_step() { return cpu::bf16_dot() == Bf16Dot::amx ? kTiles * 16 * 16 * 32 * 2 : kDots * 32 * 2; }
float bf16_dot_chain(int64_t steps) { return cpu::bf16_dot() == Bf16Dot::amx ? tiles(steps) : dots(steps); }

}  // namespace weft::bench

#else

namespace weft::bench {

double dot_flops_per_step() { return 0; }
float bf16_dot_chain(int64_t) { return 0; }

}  // namespace weft::bench

#endif
