#include "weft/tile/cpu/bf16_dot.h"

#include <cstdlib>
#include <string_view>

#include "weft/base/check.h"
#include "weft/tile/cpu/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

bool machine_has_it() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// Whether it beats f32 multiply-adds on widened values. Intel's cores issue one in the time of four fmas: half the rate.
bool it_pays() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

Bf16Dot choose() {
  const char *wanted = std::getenv("WEFT_BF16_DOT"), *isa = std::getenv("WEFT_ISA");
  const std::string_view choice = wanted ? wanted : "";
  if (choice == "none") return Bf16Dot::none;
  if (choice == "emulated") return Bf16Dot::emulated;
  if (choice == "emulated-amx") return Bf16Dot::emulated_amx;
  if (choice == "hardware") {
    check(machine_has_it(), "WEFT_BF16_DOT", "asks for hardware, which this machine does not have (AVX512_BF16)");
    return Bf16Dot::hardware;
  }
  if (choice == "amx") {
    check(has_amx(), "WEFT_BF16_DOT", "asks for amx, which this machine or its system does not have");
    return Bf16Dot::amx;
  }
  check(choice.empty(), "WEFT_BF16_DOT", "is '", choice, "', expected none, hardware, emulated, amx or emulated-amx");
  if (isa) return Bf16Dot::none;
  return has_amx() ? Bf16Dot::amx : machine_has_it() && it_pays() ? Bf16Dot::hardware : Bf16Dot::none;
}

}  // namespace

Bf16Dot bf16_dot() {
  static const Bf16Dot chosen = choose();
  return chosen;
}

#if defined(__x86_64__)
namespace {

// 24 sums, 4 words of B and one of A in 32 registers: see gemm.h, whose tile this is.
template <int kRows, int kVectors>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,fma,avx2"))) void multiply(const PairTile& t) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[i][j] = t.from ? _mm512_loadu_ps(t.from + i * t.from_row + j * 16) : _mm512_setzero_ps();
  const float *a = t.a, *b = t.b;
  const char* ahead = t.ahead;
#pragma GCC unroll 4
  for (int64_t step = 0; step < t.steps; ++step, a += kPairRows, b += kPairColumns) {
    if (step % 4 == 0) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += t.ahead_stride;
    }
    __m512bh right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) right[j] = (__m512bh)_mm512_loadu_ps(b + j * 16);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const __m512bh left = (__m512bh)_mm512_set1_ps(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(t.c + i * t.row + j * 16, sum[i][j]);
}

template <int kRows>
void with_vectors(const PairTile& t) {
  switch ((t.columns + 15) / 16) {
    case 1: return multiply<kRows, 1>(t);
    case 2: return multiply<kRows, 2>(t);
    case 3: return multiply<kRows, 3>(t);
    default: return multiply<kRows, 4>(t);
  }
}

}  // namespace

void multiply_pairs(const PairTile& t) {
  switch (t.rows) {
    case 1: return with_vectors<1>(t);
    case 2: return with_vectors<2>(t);
    case 3: return with_vectors<3>(t);
    case 4: return with_vectors<4>(t);
    case 5: return with_vectors<5>(t);
    default: return with_vectors<6>(t);
  }
}
#else
void multiply_pairs(const PairTile&) { fail(ErrorCode::unsupported, "multiply_pairs", "this machine has no product of bf16 pairs"); }
#endif

}  // namespace weft::cpu
