// Rows of a KV cache that may be paged (weft/ops/kv_pages.h).
#pragma once

#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/heads.cuh"

namespace weft::cuda {

template <class T>
struct CachedHeads {
  Heads<T> stored;
  const int32_t* pages;           // [B, per_sequence]; null: not paged
  int per_sequence, page, count;  // pages per sequence; positions per page; number of pages
  Fault* fault;
  const char* op;
  int64_t time = stored.time;  // stride between positions of one page

  // The row of position t; the rest of its page follows with stride `time`. An invalid page id is reported and page 0 used instead.
  __device__ __forceinline__ T* row(int64_t b, int t, int64_t h) const {
    if (!pages) return stored.row(b, t, h);
    const int n = int(unsigned(t) / unsigned(page)), id = pages[b * per_sequence + n];
    if (unsigned(id) < unsigned(count)) return stored.row(id, t - n * page, h);
    report(fault, Fault::id_out_of_range, op, id, n, count);
    return stored.row(0, t - n * page, h);
  }
};

template <class T, class AnyView>
auto cached_heads(const AnyView& cache, const View& pages, const Launch& launch) {
  const auto stored = heads<T>(cache);
  using Element = std::remove_reference_t<decltype(*stored.at)>;
  return CachedHeads<Element>{stored,
                              pages ? data<int32_t>(pages) : nullptr,
                              pages ? int(pages.shape[1]) : 0,
                              int(cache.shape[1]),
                              int(cache.shape[0]),
                              launch.fault(),
                              launch.op()};
}

}  // namespace weft::cuda
