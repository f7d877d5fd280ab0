// Loops that do one thing: multiply-add, dot product, exponential, copy, triad, read. Compiled per instruction set.
#pragma once

#include <cstdint>

namespace weft::bench {

// Twelve chains of sixteen-lane multiply-adds, `steps` long.
inline constexpr double kFlopsPerStep = 12 * 16 * 2;
float fma_chain(int64_t steps);

// Chains of the instruction that bf16 GEMMs use, on numbers of both signs (some units run faster on zeros): twelve that each add 32
// products to sixteen f32 sums (AVX512_BF16), or four that each add 32 to every sum of a 16 x 16 tile (AMX).
bool has_bf16_dot();  // and bf16 GEMMs use it; required by:
double dot_flops_per_step();
float bf16_dot_chain(int64_t steps);

// Eight chains of x = e^-x, sixteen lanes each.
inline constexpr double kExpsPerStep = 8 * 16;
float exp_chain(int64_t steps);

void copy_chunk(const float* from, float* to, int64_t n);
void triad_chunk(const float* b, const float* c, float* a, int64_t n);  // a = b + 3 c
float read_chunk(const float* from, int64_t n);                         // the sum

}  // namespace weft::bench
