// Parameters of grouped_matmul's Metal kernels, shared by the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct GroupedMatmulParams {
  int64_t a_stride, b_stride, c_stride;  // of rows, in elements; b_stride: grouped_matmul_weights only
  int32_t P, E, K, N;                    // grouped_matmul_weights: K is M
  int32_t aligned_a, aligned_b;          // rows can be loaded four elements at a time
  int32_t accumulate, unused;
};
static_assert(sizeof(GroupedMatmulParams) == 56, "host and MSL agree");

}  // namespace weft
