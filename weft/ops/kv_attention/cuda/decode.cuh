// One query per sequence, in two kernels: the first computes scores, all keys in parallel; the second weighs the values, tile after tile
// of keys as the forward pass does, columns of the values in parallel. A query has the bits of the forward pass: nothing depends on
// how many sequences or heads are decoded together, nor on the capacity of the cache or its pages.
#pragma once

#include "weft/ops/kv_attention/cuda/tiles.h"
#include "weft/tile/cuda/group.cuh"
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
  float scale;
  bool aligned;
  Fault* fault;
  const char* op;
};

// The work of this block: up to kDecodeHeads heads of one key head (blockIdx.y), a sequence (blockIdx.z). length: its keys; 0 if start
// is out of range, which is reported.
struct DecodeBlock {
  int b, hkv, head0, heads, length;

  template <class T>
  __device__ __forceinline__ explicit DecodeBlock(const DecodeParams<T>& p) {
    const int parts = (p.group + kDecodeHeads - 1) / kDecodeHeads, before = p.start[blockIdx.z];
    b = int(blockIdx.z), hkv = int(blockIdx.y) / parts, head0 = hkv * p.group + int(blockIdx.y) % parts * kDecodeHeads;
    heads = min(kDecodeHeads, (hkv + 1) * p.group - head0);
    const bool inside = before >= 0 && before < p.capacity;
    if (!inside && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
      report(p.fault, Fault::start_out_of_range, p.op, before, b, p.capacity - 1);
    length = inside ? before + 1 : 0;
  }

  // Row of a head in scores and maxima.
  template <class T>
  __device__ __forceinline__ int64_t row(const DecodeParams<T>& p, int head) const {
    return int64_t(b) * p.H + head0 + head;
  }
};

}  // namespace weft::cuda
