// Rows of a KV cache that may be paged (weft/ops/kv_pages.h). Within a page, positions have a fixed stride.
#pragma once

#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/heads.h"

namespace weft {

// Offset of the row of head h at position t of sequence b. An invalid page id is reported and page 0 used instead.
inline int64_t cached_row_at(bool paged, HeadStrides s, PageSizes sizes, device const int* pages, device Fault& fault, int b, int t,
                             int h) {
  if (!paged) return row_at(s, b, t, h);
  const int n = t / sizes.page, id = pages[int64_t(b) * sizes.per_sequence + n];
  if (id >= 0 && id < sizes.stored) return row_at(s, id, t % sizes.page, h);
  report(fault, metal_fault::page_out_of_range, id, n, sizes.stored - 1);
  return row_at(s, 0, t % sizes.page, h);
}

}  // namespace weft
