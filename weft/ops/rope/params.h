// The numbers of rope's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

// A sharer is a set of rows at one position: token t of all sequences and heads where all sequences start at one place (or one sequence
// has positions), else token t of sequence b with its heads. It has rows, [B, H] or [H], each of them cut into pieces; a column is one
// piece of all its rows.
struct RopeParams {
  int64_t columns, rows, slice;                              // of all sharers; of a sharer; rows of a slice
  int64_t tokens, positions;                                 // T; rows of the table
  int64_t x_batch, x_time, x_head, y_batch, y_time, y_head;  // strides in elements
  int32_t heads, head_dim, pairs;                            // H, D, pairs to turn
  int32_t pieces;                                            // of a row: vectors of pairs, then of elements to copy
  int32_t across;                                            // columns of a threadgroup
  int32_t shared;                                            // all sequences start at one place
  float sign;
  int32_t unused;
};
static_assert(sizeof(RopeParams) == 120, "host and MSL agree");

}  // namespace weft
