// "Larger than the caches": the one definition, for kernels that store non-temporally and for benchmarks that must read from memory.
#pragma once

#include <cstdint>

namespace weft::cpu {

// A result of that many bytes is not in cache when it is next read: a core's share of the last level is smaller. Measured on
// matmul, whose C of 16 MiB or more is 3 to 8 % faster with non-temporal stores.
inline constexpr int64_t kOutOfCache = int64_t(16) << 20;

// The same for all bytes that a row or elementwise kernel moves: it reads about two operands of the size of its result.
inline constexpr int64_t kLaunchOutOfCache = 3 * kOutOfCache;

// The bytes that a benchmark moves between two uses of the same data: more than the last level of a whole machine.
inline constexpr double kBenchOutOfCache = 256e6;

}  // namespace weft::cpu
