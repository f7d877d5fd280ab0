// [B, T, H, D] operands of the attentions, in host and MSL: any strides over B, T and H, unit stride over D.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

struct HeadStrides {
  int64_t batch, time, head;  // in elements
};

// Offset of the row of head h at time t of sequence b.
inline int64_t row_at(HeadStrides s, int64_t b, int64_t t, int64_t h) { return b * s.batch + t * s.time + h * s.head; }

// The sizes of a paged KV cache (weft/ops/kv_pages.h): `stored` pages of `page` positions; a page table of `per_sequence` entries per
// sequence.
struct PageSizes {
  int32_t stored, page, per_sequence, unused;
};

}  // namespace weft
