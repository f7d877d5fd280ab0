// Threads that share a row: a warp, or a whole block. Sums and maxima over them in a fixed order: a butterfly within
// each warp, then the warps in order. Every thread gets the result.
#pragma once

#include <cstdint>

namespace weft::cuda {

struct Sum {
  static constexpr float kNone = 0;
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
// A NaN wins.
struct Max {
  static constexpr float kNone = -__builtin_huge_valf();
  __device__ __forceinline__ float operator()(float a, float b) const { return a < b || b != b ? b : a; }
};

template <class Op>
__device__ __forceinline__ float warp_reduce(float x, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, distance);
    // The lower lane's value first: both lanes compute the same even if the operation is not symmetric.
    x = (threadIdx.x & unsigned(distance)) ? op(other, x) : op(x, other);
  }
  return x;
}

// kThreads = 32: a warp of a block that may hold several. Otherwise the block is one group of kThreads threads.
template <int kThreads>
class Group {
 public:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPerBlock = kThreads == 32 ? 4 : 1;  // groups, and so rows, in a block
  static constexpr int kBlockThreads = kThreads * kPerBlock;

  __device__ __forceinline__ static int rank() { return int(threadIdx.x % unsigned(kThreads)); }
  __device__ __forceinline__ static int64_t index() { return int64_t(blockIdx.x) * kPerBlock + int(threadIdx.x / unsigned(kThreads)); }
  __device__ __forceinline__ static int64_t count() { return int64_t(gridDim.x) * kPerBlock; }

  template <class Op>
  __device__ __forceinline__ float reduce(float x, Op op) {
    x = warp_reduce(x, op);
    if constexpr (kWarps > 1) {
      __shared__ float slots[2][kWarps];
      turn_ ^= 1;  // the other half: all threads have passed a barrier since they read it
      if ((threadIdx.x & 31) == 0) slots[turn_][threadIdx.x / 32] = x;
      __syncthreads();
      x = slots[turn_][0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) x = op(x, slots[turn_][w]);
    }
    return x;
  }
  __device__ __forceinline__ float sum(float x) { return reduce(x, Sum()); }
  __device__ __forceinline__ float max(float x) { return reduce(x, Max()); }

 private:
  int turn_ = 0;
};

}  // namespace weft::cuda
