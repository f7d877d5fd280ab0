// The pages of a KV cache, for kv_append and kv_attention. Without a table, a cache [B, S, K, D] has one row of S positions per sequence.
// With a table `pages` [B, P], i32, it is a store of pages [N, S, K, D]: position t of sequence b is position t % S of page
// pages[b, t / S]. Sequences may share pages. The identity table pages[b, n] = b P + n is a contiguous cache.
//
// Only the entries that a launch reads or writes need be pages; an id outside [0, N) among them is a fault raised by the stream.
#pragma once

#include "weft/ops/contract.h"

namespace weft {

// S is a multiple of this: every device's tiles of keys then lie within pages, or are whole pages.
inline constexpr int64_t kPageMultiple = 64;

// Positions of a sequence.
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
