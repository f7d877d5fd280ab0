// The numbers of reduce's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

// x as rows of n elements, each cut into segments.
struct ReduceRowsParams {
  int64_t stride, n, segment, segments, tasks;  // tasks: segments of all rows
  int32_t team, aligned;                        // team: threads to a segment
};
static_assert(sizeof(ReduceRowsParams) == 48, "host and MSL agree");

// x as [outer, n, inner], n cut into chunks.
struct ReduceColumnsParams {
  int64_t outer, n, inner, outer_stride, stride, chunks, length;  // length: of a chunk
  int32_t vectors, aligned;                                       // vectors: of inner
};
static_assert(sizeof(ReduceColumnsParams) == 64, "host and MSL agree");

struct ReduceBackwardParams {
  int64_t outer, n, inner, x_outer, x_stride, dx_outer, dx_stride, chunks, length;
  int32_t team, vectors, aligned, unused;
};
static_assert(sizeof(ReduceBackwardParams) == 88, "host and MSL agree");

}  // namespace weft
