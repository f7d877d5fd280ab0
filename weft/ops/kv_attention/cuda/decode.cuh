// One query at a time, as if each were a sequence of its own, in two kernels: the first computes scores, all keys in parallel; the second
// weighs the values, tile after tile of keys as the forward pass does, columns of the values in parallel. A query has the bits of the
// forward pass: nothing depends on how many sequences or heads are decoded together, nor on the capacity of the cache or its pages.
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
  float* scores;                     // [B, H, pitch]; bf16: not scaled, -inf after the last key up to the end of its tile
  float* maxima;                     // bf16: [B, H, pitch / kScoreKeys], of each kScoreKeys scores
  int capacity, pitch, H, group, D;  // pitch: capacity, rounded up to whole tiles; group: heads to a key head
  int queries, first;                // of a sequence; of all sequences' queries one after the other, that of blockIdx.z = 0
  int window;                        // keys that a query attends to, up to its own; capacity: all
  float soft_cap, cap_scale;         // 0: none; scale / soft_cap
  float scale;                       // from scores to s; 1 with a soft cap, which the scores have then
  bool aligned;
  Fault* fault;
  const char* op;
};

// The work of this block: up to kDecodeHeads heads of one key head (blockIdx.y), query t of sequence b (blockIdx.z). length: the keys up to
// its own; 0 if start is out of range, which is reported. low: the first of them that its window has.
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

  // The first tile of kKeys keys that the forward pass takes for a block of kQueries queries from position 0, 1, 2, ... blocks on.
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
