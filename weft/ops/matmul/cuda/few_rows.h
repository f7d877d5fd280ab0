// Matmuls of few rows: a decode step. Every element is summed in the order of docs/numerics.md, "One order: CUDA", whatever the
// number of rows, which matmuls share the launch, and how their operands are aligned.
#pragma once

#include <span>

#include "weft/ops/matmul/matmul.h"

namespace weft::cuda {

inline constexpr int64_t kFewRows = 64;  // more go to cuBLASLt, where it has the same order
inline constexpr size_t kFewRowsMembers = 4;

// Up to kFewRowsMembers matmuls of the same `a`, which agree in everything but b, c, bias and pre; without a batch; K > 0. Takes any
// number of rows: kFewRows of them share one read of b. `ahead`: the kernel before on the stream writes no b, so b may be read before that
// kernel has ended.
void multiply_few_rows(Stream& stream, std::span<const MatmulArgs> members, bool ahead = false);

// The same by kernels that hold all rows of `a` (held_rows.cuh). Returns false and does nothing if they do not support these operands.
bool multiply_held(Stream& stream, std::span<const MatmulArgs> members, bool ahead);

}  // namespace weft::cuda
