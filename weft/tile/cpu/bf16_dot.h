// Dot products of pairs of bf16, on CPUs with an instruction for them (AVX512_BF16: vdpbf16ps).
//
// A word holds two bf16, the even k in its lower half. One step of a sum c with words a and b is
//   c = fma(a[odd], b[odd], c), then c = fma(a[even], b[even], c),
// each rounded once, to nearest even (the product of two bf16 is exact in f32). Unlike f32 arithmetic elsewhere the
// instruction takes subnormal inputs as zero and flushes subnormal results to zero. A sum may be cut at even k only.
#pragma once

#include <cstdint>

namespace weft::cpu {

struct PairTile {
  int64_t rows, columns, steps;  // steps of two k; up to kPairRows rows and kPairColumns columns
  const float* a;                // words a[step * kPairRows + row], as their bits
  const float* b;                // words b[step * kPairColumns + column]
  const float* from;             // where the sums start, rows from_row apart; null: at zero
  int64_t from_row;
  float* c;           // whole vectors of sixteen are written
  int64_t row;        // from one row of c to the next
  const char* ahead;  // a cache line to prefetch every fourth step, and the distance to the next
  int64_t ahead_stride;
};
inline constexpr int kPairRows = 6, kPairColumns = 64;

enum class Bf16Dot { none, hardware, emulated, amx, emulated_amx };

// Instruction that multiplies bf16 on this machine, unless WEFT_ISA names an instruction set: `amx` if it has AMX (amx.h), `hardware` if it
// has the instruction and that is faster than f32 (AMD's, not Intel's), else `none`: f32 on widened values. WEFT_BF16_DOT=none, hardware,
// emulated, amx or emulated-amx overrides it; the emulated ones, the same steps in f32, are for tests.
Bf16Dot bf16_dot();

// Requires bf16_dot() == hardware.
void multiply_pairs(const PairTile& tile);

}  // namespace weft::cpu
