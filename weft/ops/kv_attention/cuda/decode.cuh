// Decode attention: each query is processed as a sequence of its own, in two kernels. The first computes scores, all keys in parallel. The
// second weighs the values tile by tile of keys, in the forward pass's order, columns of the values in parallel. A query has the bits of
// the forward pass; they do not depend on the batch, the capacity of the cache or its pages.
#pragma once

#include "weft/ops/kv_attention/cuda/tiles.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/overlap.cuh"
#include "weft/tile/cuda/pages.cuh"

namespace weft::cuda {

template <class T>
struct DecodeParams {
  Heads<const T> q;
  CachedHeads<const T> k, v;
  Heads<T> o;
  const int32_t* start;
  float* scores;                     // [B, H, pitch]; bf16: unscaled, padded with -inf to the end of the last tile
  float* maxima;                     // bf16: [B, H, pitch / kScoreKeys], the maxima of kScoreKeys scores
  int capacity, pitch, H, group, D;  // pitch: capacity, rounded up to whole tiles; group: heads per key head
  int queries, first;                // queries per sequence; index, among the queries of all sequences, of blockIdx.z = 0
  int window;                        // number of keys that a query attends to, its own included; capacity: no window
  float soft_cap, cap_scale;         // 0: none; scale / soft_cap
  float scale;                       // factor from stored scores to s; 1 with a soft cap, which is then applied already
  bool aligned;
  Fault* fault;
  const char* op;
};

// The work of a block: up to kDecodeHeads heads of one key head (blockIdx.y), query t of sequence b (blockIdx.z). length: number of keys up
// to the query's own; 0 if start is out of range, which is reported. low: the first key inside the window.
struct DecodeBlock {
  int b, t, hkv, head0, heads, length, low;

  template <class T>
  __device__ __forceinline__ explicit DecodeBlock(const DecodeParams<T>& p) {
    b = (p.first + int(blockIdx.z)) / p.queries, t = p.first + int(blockIdx.z) - b * p.queries;
    const int parts = (p.group + kDecodeHeads - 1) / kDecodeHeads, start = p.start[b];
    hkv = int(blockIdx.y) / parts, head0 = hkv * p.group + int(blockIdx.y) % parts * kDecodeHeads;
    heads = min(kDecodeHeads, (hkv + 1) * p.group - head0);
    const bool inside = start >= 0 && start <= p.capacity - p.queries;
    if (!inside && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
      report(p.fault, Fault::start_out_of_range, p.op, start, b, p.capacity - p.queries);
    length = inside ? start + t + 1 : 0;
    low = max(0, length - p.window);
  }

  // The first tile of kKeys keys that the forward pass visits for this query, whose block of kQueries queries is counted from position 0.
  template <int kQueries, int kKeys, class T>
  __device__ __forceinline__ int first_tile(const DecodeParams<T>& p) const {
    return max(0, (length - 1) / kQueries * kQueries - p.window + 1) / kKeys;
  }

  // Row of a head in scores and maxima.
  template <class T>
  __device__ __forceinline__ int64_t row(const DecodeParams<T>& p, int head) const {
    return int64_t(blockIdx.z) * p.H + head0 + head;
  }
};

}  // namespace weft::cuda
