// Parameters of the attention kernels in Metal: the same structs on the host and in MSL.
#pragma once

#include "weft/tile/metal/heads.h"

namespace weft {

struct AttentionParams {
  HeadStrides q, k, v, o;
  int32_t T, H, group, D;  // queries, heads, heads to a key head, head dim
  int32_t most;            // capacity of k and v, in keys
  float scale;
  int32_t documents;  // how many; 0: one a sequence
  int32_t window;     // 0: none
  float soft_cap;     // 0: none
  int32_t unused;
  PageSizes pages;
};
static_assert(sizeof(AttentionParams) == 152, "the host and MSL must agree");

struct AttentionBackwardParams {
  HeadStrides q, k, v, o, dout, dq, dk, dv;
  int32_t T, H, group, D;
  int32_t B;
  float scale;
  int32_t documents;  // these three as of the forward
  int32_t window;
  float soft_cap;
  int32_t unused;
};
static_assert(sizeof(AttentionBackwardParams) == 232, "the host and MSL must agree");

struct DocumentsParams {
  int32_t documents, T;
};
static_assert(sizeof(DocumentsParams) == 8, "the host and MSL must agree");

}  // namespace weft
