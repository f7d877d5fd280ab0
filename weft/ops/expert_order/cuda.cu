#include "weft/ops/expert_order/expert_order.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 1024, kEach = 4;  // kEach: ids per thread and round

// Exclusive prefix sum of `own` over the threads of the block; total: the sum over all threads.
__device__ __forceinline__ int counts_before(int own, int& total) {
  __shared__ int warps[kThreads / 32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  int upto = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int left = __shfl_up_sync(0xffffffffu, upto, distance);
    if (lane >= distance) upto += left;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll 8
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warps[w];
    total += warps[w];
  }
  return before + upto - own;
}

// Equation: a stable counting sort of ids: starts, rows, and places, the inverse of rows.
// Layout:   ids, places [P], rows [P], starts [E + 1].
// Order:    integers only. One block per expert: it counts the smaller ids, then ranks its own in order of position.
// Requires: ids in [0, E); any other id is reported and treated as expert 0.
// Traffic:  ids twice per expert, from L2; one write of each result.
__global__ void __launch_bounds__(kThreads)
    sort(const int32_t* ids, int32_t* starts, int32_t* rows, int32_t* places, int P, int E, Fault* fault, const char* op) {
  const int expert = int(blockIdx.x);
  const auto id_at = [&](int p) {
    const int id = ids[p];
    return id < 0 || id >= E ? 0 : id;
  };
  int below = 0, total;
  for (int p = int(threadIdx.x); p < P; p += kThreads) {
    if (expert == 0 && (ids[p] < 0 || ids[p] >= E)) report(fault, Fault::id_out_of_range, op, ids[p], p, E);
    below += id_at(p) < expert;
  }
  counts_before(below, total);
  int next = total;
  if (threadIdx.x == 0) {
    starts[expert] = next;
    if (expert == 0) starts[E] = P;
  }
  for (int first = 0; first < P; first += kThreads * kEach) {
    const int p0 = first + int(threadIdx.x) * kEach;
    int own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) own += p0 + i < P && id_at(p0 + i) == expert;
    int place = next + counts_before(own, total);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (p0 + i >= P || id_at(p0 + i) != expert) continue;
      rows[place] = p0 + i;
      places[p0 + i] = place++;
    }
    next += total;
  }
}

}  // namespace

void expert_order(Stream& stream, const ExpertOrderArgs& a) {
  const Launch launch(stream, a.kOp, {&a.ids, &a.starts});
  const int E = int(a.starts.numel()) - 1;
  launch(unsigned(E), kThreads, 0, sort, data<int32_t>(a.ids), data<int32_t>(a.starts), data<int32_t>(a.rows), data<int32_t>(a.places),
         int(a.ids.numel()), E, launch.fault(), launch.op());
}

}  // namespace weft::cuda
