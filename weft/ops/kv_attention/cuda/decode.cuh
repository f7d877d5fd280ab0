// One query per sequence: the keys are split, so that batch 1 fills the GPU; each split writes a partial result, and
// join_splits merges them.
#pragma once

#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/heads.cuh"

namespace weft::cuda {

// The partial result of a split for one query head: the unnormalised output, its maximum (as a power of two) and its sum.
struct DecodePartial {
  float *o, *largest, *sum;  // [B, H, splits, D], [B, H, splits] twice
};

template <class T>
struct DecodeParams {
  Heads<const T> q, k, v;
  const int32_t* start;
  DecodePartial partial;
  int capacity, H, Hkv, group, D, splits;
  float to_log2;  // scale log2(e)
  bool aligned;
  Fault* fault;
  const char* op;
};

// Keys [first, last) of a split; the splits of `length` keys depend on `length` and their number alone.
__device__ __forceinline__ int split_length(int length, int splits) { return ((length + splits - 1) / splits + 31) / 32 * 32; }

// The work of this block: a split of the keys, at most `most` heads of one key head, a sequence.
struct DecodeBlock {
  int split, b, hkv, head0, heads, first, last;
  bool valid;

  template <class T>
  __device__ __forceinline__ DecodeBlock(const DecodeParams<T>& p, int most) {
    const int parts = (p.group + most - 1) / most, before = p.start[blockIdx.z];
    split = int(blockIdx.x), b = int(blockIdx.z), hkv = int(blockIdx.y) / parts, head0 = hkv * p.group + int(blockIdx.y) % parts * most;
    heads = min(most, (hkv + 1) * p.group - head0);
    const bool inside = before >= 0 && before < p.capacity;
    if (!inside && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
      report(p.fault, Fault::start_out_of_range, p.op, before, b, p.capacity - 1);
    const int length = inside ? before + 1 : 0, chunk = split_length(length, p.splits);
    first = min(split * chunk, length), last = min(first + chunk, length);
    valid = inside && first < last;
  }

  template <class T>
  __device__ __forceinline__ int64_t at(const DecodeParams<T>& p, int head) const {
    return (int64_t(b) * p.H + head0 + head) * p.splits + split;
  }
  template <class T>
  __device__ __forceinline__ void write(const DecodeParams<T>& p, int head, int d, float x) const {
    p.partial.o[at(p, head) * p.D + d] = x;
  }
  template <class T>
  __device__ __forceinline__ void write(const DecodeParams<T>& p, int head, float top, float total) const {
    p.partial.largest[at(p, head)] = top;
    p.partial.sum[at(p, head)] = total;
  }
};

}  // namespace weft::cuda
