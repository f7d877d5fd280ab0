// The numbers of the Metal kernels of expert_rows: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct ExpertRowsParams {
  int64_t tokens, rows;                      // T, P
  int64_t x_stride, y_stride;                // in elements; y: of expert_dots dy
  int32_t each, columns, aligned, weighted;  // each: rows of a token; aligned: rows of x and y
};
static_assert(sizeof(ExpertRowsParams) == 48, "host and MSL agree");

}  // namespace weft
