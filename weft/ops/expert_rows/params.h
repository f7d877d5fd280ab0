// Parameters of the Metal kernels of expert_rows, shared by the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct ExpertRowsParams {
  int64_t tokens, rows;                      // T, P
  int64_t x_stride, y_stride;                // of rows, in elements; expert_dots: y_stride is that of dy
  int32_t each, columns, aligned, weighted;  // each: k, the rows per token; aligned: rows of x and y allow vector loads
};
static_assert(sizeof(ExpertRowsParams) == 48, "host and MSL agree");

}  // namespace weft
