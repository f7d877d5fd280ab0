// Limits of the kernels that hold all rows of the left operand in a block's shared memory (weft/ops/matmul/cuda/held_rows.cuh).
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/check.h"

namespace weft {

// Bytes of R + 1 rows (one of zeros) of C bf16 elements, C a multiple of 64, with padding against bank conflicts.
inline int64_t held_bytes(int64_t R, int64_t C) { return (R + 1) * (2 * C + 16); }

// Whether R rows of C bf16 elements, with the gain in f32, fit into kNormedBytes. This leaves room for two stages of weights in the 99 KiB
// of shared memory that a block has on every supported GPU.
inline constexpr int64_t kNormedBytes = 81 * 1024;
inline bool normed_rows_take(int64_t R, int64_t C) { return R >= 1 && C % 64 == 0 && C > 0 && held_bytes(R, C) + 4 * C <= kNormedBytes; }
inline std::string normed_rows_limits(int64_t most) {
  return join("1 to ", most, " rows of a multiple of 64 elements that fit into ", kNormedBytes / 1024, " KiB with the gain in f32");
}

}  // namespace weft
