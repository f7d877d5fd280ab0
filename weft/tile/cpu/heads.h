// [B, T, H, D] operands of rope and the attentions: any strides over B, T and H, unit stride over D.
#pragma once

#include "weft/tile/cpu/kernel.h"

namespace weft::cpu {

template <class T>
struct Heads {
  T* at;
  int64_t batch, time, head;  // strides in elements

  T* row(int64_t b, int64_t t, int64_t h) const { return at + b * batch + t * time + h * head; }
};

template <class T>
Heads<const T> heads(const View& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}
template <class T>
Heads<T> heads(const MutView& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}

// Rows of a KV cache, which is paged if there is a page table (weft/ops/kv_pages.h).
template <class T>
struct CachedHeads {
  Heads<T> stored;
  const int32_t* pages = nullptr;  // [B, pages_of_sequence]
  int64_t pages_of_sequence = 0, page = 0;
  int64_t time = stored.time;

  // The row of position t. The rest of its page follows with stride `time`.
  T* row(int64_t b, int64_t t, int64_t h) const {
    return pages ? stored.row(pages[b * pages_of_sequence + t / page], t % page, h) : stored.row(b, t, h);
  }
};

template <class T>
CachedHeads<const T> cached_heads(const View& cache, const View& pages) {
  if (!pages) return {heads<T>(cache)};
  return {heads<T>(cache), data<int32_t>(pages), pages.shape[1], cache.shape[1]};
}
template <class T>
CachedHeads<T> cached_heads(const MutView& cache, const View& pages) {
  if (!pages) return {heads<T>(cache)};
  return {heads<T>(cache), data<int32_t>(pages), pages.shape[1], cache.shape[1]};
}

// Whether positions [start[b], start[b] + T) of each sequence b are in the cache; reports a fault for the first one that is not.
inline bool cache_holds(Stream& stream, const View& start, int64_t T, const View& cache, const View& pages) {
  const int64_t capacity = pages ? pages.shape[1] * cache.shape[1] : cache.shape[1], most = capacity - T;
  for (int64_t b = 0; b < start.numel(); ++b) {
    const int64_t first = data<int32_t>(start)[b];
    if (first < 0 || first > most) {
      stream.report(join("start ", first, " of sequence ", b, " is outside [0, ", most, "]"));
      return false;
    }
    for (int64_t n = 0; pages && n * cache.shape[1] < first + T; ++n)
      if (const int32_t id = data<int32_t>(pages)[b * pages.shape[1] + n]; id < 0 || id >= cache.shape[0]) {
        stream.report(join("page ", n, " of sequence ", b, " is ", id, ", expected 0 to ", cache.shape[0] - 1));
        return false;
      }
  }
  return true;
}

}  // namespace weft::cpu
