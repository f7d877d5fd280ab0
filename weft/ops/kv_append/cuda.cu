#include "weft/ops/kv_append/kv_append.h"
#include "weft/tile/cuda/pages.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

template <class T>
struct Params {
  Heads<const T> k, v;
  CachedHeads<T> k_cache, v_cache;
  const int32_t* start;
  int64_t tokens, most, count;  // most: the last place where a sequence may start; count = B T H D, threads
  int H, D;
  Fault* fault;
  const char* op;
};

// Equation: k_cache[b, start[b] + t] = k[b, t], and so for v.
// Layout:   k, v [B, T, Hkv, D] and the caches [B, capacity, Hkv, D] or paged; any strides over the first three axes.
// Order:    no sums; one element of k and of v a thread.
// Requires: valid starts and page ids. A sequence with an invalid start is reported and not written; for an invalid page id a fault is
//           reported and page 0 written.
// Traffic:  one read and one write of each new element.
template <class T>
__global__ void append(const Params<T> p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = i / p.D, token = row / p.H, b = token / p.tokens, t = token - b * p.tokens;
    const int d = int(i - row * p.D), h = int(row - token * p.H);
    const int64_t start = p.start[b];
    if (start < 0 || start > p.most) {
      if (d == 0 && h == 0 && t == 0) report(p.fault, Fault::start_out_of_range, p.op, start, b, p.most);
      continue;
    }
    p.k_cache.row(b, int(start + t), h)[d] = p.k.row(b, t, h)[d];
    p.v_cache.row(b, int(start + t), h)[d] = p.v.row(b, t, h)[d];
  }
}

template <class T>
void run(Stream& stream, const KvAppendArgs& a) {
  const Launch launch(stream, a.kOp, {&a.k, &a.k_cache});
  const Params<T> p{heads<T>(a.k),
                    heads<T>(a.v),
                    cached_heads<T>(a.k_cache, a.pages, launch),
                    cached_heads<T>(a.v_cache, a.pages, launch),
                    data<int32_t>(a.start),
                    a.k.shape[1],
                    kv_capacity(a.k_cache, a.pages) - a.k.shape[1],
                    a.k.numel(),
                    int(a.k.shape[2]),
                    int(a.k.shape[3]),
                    launch.fault(),
                    launch.op()};
  launch(blocks_for(stream, p.count, 256), 256, 0, append<T>, p);
}

}  // namespace

void kv_append(Stream& stream, const KvAppendArgs& args) {
  if (args.k.numel() == 0) return;
  size_of(args.k.dtype) == 4 ? run<uint32_t>(stream, args) : run<uint16_t>(stream, args);  // the bits
}

}  // namespace weft::cuda
