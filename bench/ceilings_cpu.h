// Loops that do nothing but multiply-add, copy, or triad; compiled per instruction set.
#pragma once

#include <cstdint>

namespace weft::bench {

// Twelve chains of sixteen-lane multiply-adds, `steps` long. FLOPs: 12 * 16 * 2 * steps.
inline constexpr double kFlopsPerStep = 12 * 16 * 2;
float fma_chain(int64_t steps);

void copy_chunk(const float* from, float* to, int64_t n);
void triad_chunk(const float* b, const float* c, float* a, int64_t n);  // a = b + 3 c

}  // namespace weft::bench
