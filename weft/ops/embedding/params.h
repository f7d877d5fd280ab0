// What embedding's kernels are told, host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct EmbeddingParams {
  int64_t positions, table, w_stride, y_stride;  // P, V; strides in elements
  int32_t columns, aligned;
};
static_assert(sizeof(EmbeddingParams) == 40, "host and MSL agree");

struct EmbeddingBackwardParams {
  int64_t positions, table, dy_stride, dw_stride;
  int32_t columns, aligned;  // aligned: rows of dy, and of dw
};
static_assert(sizeof(EmbeddingBackwardParams) == 40, "host and MSL agree");

// One pass of the sort: places by four bits of their key.
struct SortParams {
  int64_t count, blocks;  // places; blocks of 2048 of them
  int32_t shift, unused;
};
static_assert(sizeof(SortParams) == 24, "host and MSL agree");

}  // namespace weft
