#include "weft/ops/sample/sample.h"
#include "weft/tile/cuda/overlap.cuh"

namespace weft::cuda {
namespace {

struct SampleParams {
  const float* logits;
  unsigned long long* best;  // [R]: the largest key of each row so far; 0 at first, and reset to 0 by the last block
  unsigned* left;            // [R]: number of blocks that are done; also reset
  int32_t* ids;
  int64_t row;
  int V;
};

constexpr int kSampleThreads = 256, kSampleBlocks = 16;  // blocks per row

// Keys order the candidates: NaN and +inf above all others, then by value; among equals the lower id is larger. The key of -inf is 0, no
// candidate.
__device__ __forceinline__ unsigned long long key_of(float x, int id) {
  const unsigned bits = __float_as_uint(x == 0.0f ? 0.0f : x);  // -0 equals 0
  const unsigned ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  const bool number = x < __builtin_huge_valf(), none = x == -__builtin_huge_valf();
  const unsigned rank = none ? 0u : number ? ascending : 0xffffffffu;
  return rank ? static_cast<unsigned long long>(rank) << 32 | (0xffffffffu - unsigned(id)) : 0ull;
}

// Equation: ids[r] = the lowest id of the largest logit of row r, or the negative value defined in sample.h.
// Layout:   logits [R, V] with a row stride, ids [R].
// Order:    maxima of keys, exact in any order. kSampleBlocks blocks per row; the last one to end writes the id.
// Requires: kSampleThreads threads; best and left are zero before and after.
// Traffic:  one read of the logits.
__global__ void __launch_bounds__(kSampleThreads) sample_greedy(const SampleParams p) {
  __shared__ unsigned long long tops[kSampleThreads / 32];
  const int r = int(blockIdx.y);
  let_next_kernel_start();
  wait_for_kernel_before();
  const float* logits = p.logits + r * p.row;
  unsigned long long top = 0;
#pragma unroll 4
  for (int i = int(blockIdx.x) * kSampleThreads + int(threadIdx.x); i < p.V; i += kSampleBlocks * kSampleThreads)
    top = max(top, key_of(logits[i], i));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, distance));
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const unsigned long long other : tops) top = max(top, other);
  atomicMax(&p.best[r], top);
  __threadfence();
  if (atomicAdd(&p.left[r], 1u) != kSampleBlocks - 1) return;
  __threadfence();
  const unsigned long long best = atomicExch(&p.best[r], 0ull);
  p.left[r] = 0;
  const int id = int(0xffffffffu - unsigned(best));
  p.ids[r] = best == 0 ? -1 - p.V : unsigned(best >> 32) == 0xffffffffu ? -1 - id : id;
}

// Equation: best = left = 0.
// Layout:   [R] each.
// Order:    none.
// Requires: nothing.
// Traffic:  one write of each.
__global__ void clear_counters(unsigned long long* best, unsigned* left, int rows) {
  for (int r = int(threadIdx.x); r < rows; r += int(blockDim.x)) best[r] = 0, left[r] = 0;
}

}  // namespace

void sample(Stream& stream, const SampleArgs& a) {
  const int64_t R = a.logits.shape[0], V = a.logits.shape[1];
  if (R == 0) return;
  check(R <= 65535 && V < (int64_t(1) << 31), a.kOp, "shape ", a.logits.shape, " is more than this device takes in one launch");
  const Scratch<unsigned long long> best(stream, R);
  const Scratch<unsigned> left(stream, R);
  const Launch launch(stream, a.kOp, {&a.logits});
  launch(1, 256, 0, clear_counters, best.data(), left.data(), int(R));
  launch_overlapping(stream, a.kOp, dim3(kSampleBlocks, unsigned(R)), kSampleThreads, 0, sample_greedy,
                     SampleParams{data<float>(a.logits), best.data(), left.data(), data<int32_t>(a.ids), a.logits.strides[0], int(V)});
}

}  // namespace weft::cuda
