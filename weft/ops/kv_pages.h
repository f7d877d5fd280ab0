// Paged KV caches, for kv_append and kv_attention. Without a page table, a cache [B, S, K, D] has S positions per sequence. With a table
// `pages` [B, P], i32, a cache [N, S, K, D] holds N pages of S positions: position t of sequence b is position t % S of page
// pages[b, t / S]. Sequences may share pages. The table pages[b, n] = b P + n is a contiguous cache.
//
// Only entries that a launch uses must be valid: for one outside [0, N) the stream raises a fault.
#pragma once

#include "weft/ops/contract.h"

namespace weft {

// S is a multiple of this, so that on every device a tile of keys lies within one page or is a whole number of pages.
inline constexpr int64_t kPageMultiple = 64;

// Maximum number of positions of a sequence.
inline int64_t kv_capacity(const View& cache, const View& pages) { return pages ? pages.shape[1] * cache.shape[1] : cache.shape[1]; }

inline void check_pages(const Contract& contract, const View& cache, const View& pages, int64_t sequences) {
  const int64_t stored = cache.shape[0], S = cache.shape[1];
  if (!pages) {
    contract.require(stored == sequences, "k_cache has ", stored, " rows for ", sequences, " sequences, and there are no pages");
    return;
  }
  contract.require(S > 0 && S % kPageMultiple == 0, "a page has ", S, " positions, expected a multiple of ", kPageMultiple);
  contract.require(stored > 0, "k_cache has no pages");
}

}  // namespace weft
