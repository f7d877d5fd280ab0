// Parameters of matmul's Metal kernels: extents, and strides in elements. The same struct on the host and in MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct MatmulPlace {
  int64_t row;           // from one row to the next, as stored
  int64_t outer, inner;  // from one matrix to the next along the two batch axes
};

struct MatmulParams {
  int64_t M, N, K;
  int64_t inner;  // extent of the inner batch axis
  MatmulPlace a, b, c, pre;
  int32_t rows;  // multiply_few: rows that share one B, of all matrices if B is shared
  int32_t activation;
  float alpha, beta;
};
static_assert(sizeof(MatmulParams) == 144, "the host and MSL must agree");

}  // namespace weft
