// The numbers of embedding's Metal kernels: one struct for the host and MSL.
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

// Positions are sorted by id in segments (sort.metal.h).
struct EmbeddingBackwardParams {
  int64_t positions, table, dy_stride, dw_stride;
  int32_t columns, aligned;  // aligned: rows of dy, and of dw
  int32_t bits, segment;     // that ids take; positions of a segment
};
static_assert(sizeof(EmbeddingBackwardParams) == 48, "host and MSL agree");

enum EmbeddingSort {
  kPositionBits = 12,  // of a place in a segment
  kChunk = 512         // sorted places that are summed in one go
};

}  // namespace weft
