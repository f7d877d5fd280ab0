// The numbers of cross_entropy's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

enum : int { kHeldLogits = 8 };  // chunks of a row to a thread: 1024 threads hold 65536 bf16, 32768 f32

struct CrossEntropyParams {
  int64_t rows, stride, d_stride, pad_id;  // strides in elements
  int32_t columns, team;                   // team: threads to a row
};
static_assert(sizeof(CrossEntropyParams) == 40, "host and MSL agree");

// Shared by all rows, in device memory.
struct CrossEntropyShared {
  float count;             // the divisor
  int32_t targets, wrong;  // that are not padding; that are out of range: then nothing is to be done
};
static_assert(sizeof(CrossEntropyShared) == 12, "host and MSL agree");

}  // namespace weft
