// The CPU's one order (weft/tile/cpu/order.h) as slow code, element by element: what every kernel must equal, byte by byte.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/tile/cpu/bf16_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu_order {

using cpu::Bf16Dot;

// How a sum over k is computed: by elements, pairs or tiles of 32.
enum class Kind { chain, pairs, tiles };

inline Kind kind_of(DType dtype) {
  if (dtype == DType::f32) return Kind::chain;
  switch (cpu::bf16_dot()) {
    case Bf16Dot::none: return Kind::chain;
    case Bf16Dot::hardware:
    case Bf16Dot::emulated: return Kind::pairs;
    default: return Kind::tiles;
  }
}

// AMX takes subnormal values as zero and flushes subnormal results.
inline float flushed(float x) { return cpu::bf16_dot() == Bf16Dot::amx && x != 0 && std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float tile_fma(float a, float b, float c) { return flushed(std::fma(flushed(a), flushed(b), c)); }

#if defined(__x86_64__)
// One pair by the instruction: it defines what becomes of subnormals.
__attribute__((target("avx512bf16,avx512vl,avx512f"))) inline float hardware_pair(const float (&a)[2], const float (&b)[2], float sum) {
  const auto word = [](const float(&x)[2]) { return (std::bit_cast<uint32_t>(x[1]) & 0xffff0000u) | std::bit_cast<uint32_t>(x[0]) >> 16; };
  const __m128i wa = _mm_cvtsi32_si128(int(word(a))), wb = _mm_cvtsi32_si128(int(word(b)));
  __m128 c = _mm_set_ss(sum);
  asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(wa), "v"(wb));
  return _mm_cvtss_f32(c);
}
#else
inline float hardware_pair(const float (&)[2], const float (&)[2], float sum) { return sum; }
#endif

// start + sum over k < K of a(k) b(k).
template <class A, class B>
float dot(Kind kind, float start, int64_t K, A a, B b) {
  const auto at = [K](auto& f, int64_t k) { return k < K ? float(f(k)) : 0.0f; };
  float sum = start;
  if (kind == Kind::chain)
    for (int64_t k = 0; k < K; ++k) sum = std::fma(float(a(k)), float(b(k)), sum);
  if (kind == Kind::pairs)
    for (int64_t k = 0; k < K; k += 2) {
      const float x[2] = {at(a, k), at(a, k + 1)}, y[2] = {at(b, k), at(b, k + 1)};
      sum = cpu::bf16_dot() == Bf16Dot::hardware ? hardware_pair(x, y, sum) : std::fma(x[0], y[0], std::fma(x[1], y[1], sum));
    }
  if (kind == Kind::tiles)
    for (int64_t block = 0; block < K; block += 32) {
      float part[2] = {0, 0};
      for (int64_t k = block; k < block + 32; ++k) part[k % 2] = tile_fma(at(a, k), at(b, k), part[k % 2]);
      sum = flushed(flushed(sum) + flushed(part[0] + part[1]));
    }
  return sum;
}

// Normal values times a power of two, rounded to bf16 if that is the dtype.
class Values {
 public:
  explicit Values(uint32_t seed) : random_(seed) {}

  std::vector<float> normal(int64_t count, DType dtype, float scale = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) {
      x = scale * normal_(random_);
      if (dtype == DType::bf16) x = float(bf16(x));
    }
    return values;
  }
  int64_t from(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  template <class T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[size_t(from(0, int64_t(N) - 1))];
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace weft::cpu_order
