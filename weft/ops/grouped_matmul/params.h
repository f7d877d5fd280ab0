// The numbers of grouped_matmul's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct GroupedMatmulParams {
  int64_t a_stride, b_stride, c_stride;  // of rows, in elements; b: of the weights' kernel
  int32_t P, E, K, N;                    // K: of the weights' kernel M
  int32_t aligned_a, aligned_b;          // whole rows in fours
  int32_t accumulate, unused;
};
static_assert(sizeof(GroupedMatmulParams) == 56, "host and MSL agree");

}  // namespace weft
