// Matmuls of few rows: a decode step. Every element is summed in the order of docs/numerics.md, "One order: CUDA", whatever the
// number of rows, which matmuls share the launch, and how their operands are aligned.
#pragma once

#include <span>

#include "weft/ops/matmul/matmul.h"

namespace weft::cuda {

inline constexpr int64_t kFewRows = 64;  // more go to cuBLASLt, where it has the same order
inline constexpr size_t kFewRowsMembers = 4;

// Up to kFewRowsMembers matmuls with the same `a`, which differ only in b, c, bias and pre; without batch axes; K > 0. Any number of rows:
// kFewRows of them share one read of b. `ahead`: the previous kernel on the stream does not write b, so b may be read before it has ended.
void multiply_few_rows(Stream& stream, std::span<const MatmulArgs> members, bool ahead = false);

// The same with kernels that hold all rows of `a` in shared memory (held_rows.cuh). Returns false and does nothing if they do not support
// these operands.
bool multiply_held(Stream& stream, std::span<const MatmulArgs> members, bool ahead);

}  // namespace weft::cuda
