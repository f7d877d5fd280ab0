// Tiles of the rows of experts: each expert's rows are cut into tiles of kM from its first one on. Only the device knows how many there
// are; a warp finds the rows of a tile by adding up the counts of the experts before it.
#pragma once

#include "weft/tile/cuda/fault.cuh"

namespace weft::cuda {

// starts [E + 1] from 0 to P. Others are reported by check(), and rows stay within [0, P).
struct ExpertRows {
  const int32_t* starts;
  int E, P;

  __device__ __forceinline__ int start(int e) const { return min(max(starts[min(e, E)], 0), P); }

  // By the threads of one block.
  __device__ __forceinline__ void check(Fault* fault, const char* op) const {
    for (int e = int(threadIdx.x); e <= E; e += int(blockDim.x)) {
      const int value = starts[e], least = e == 0 ? 0 : starts[e - 1], most = e == 0 ? 0 : P;
      if (value < least || value > most || (e == E && value != P)) report(fault, Fault::bad_documents, op, value, e, P);
    }
  }
};

// Rows [first, last) of one expert; none: expert is -1.
struct RowTile {
  int expert, first, last;
};

// Tile number `tile` of kM rows; `tiles`, if the tile does not exist, is how many there are. By a whole warp.
template <int kM>
__device__ __forceinline__ RowTile row_tile(const ExpertRows& rows, int tile, int& tiles) {
  const int lane = int(threadIdx.x) % 32;
  int before = 0;
  for (int base = 0; base < rows.E; base += 32) {
    const int first = rows.start(base + lane), last = max(first, rows.start(base + lane + 1)), own = (last - first + kM - 1) / kM;
    int upto = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int left = __shfl_up_sync(0xffffffffu, upto, distance);
      if (lane >= distance) upto += left;
    }
    const unsigned has = __ballot_sync(0xffffffffu, before + upto > tile);
    if (has) {
      const int at = __ffs(int(has)) - 1, of_expert = tile - before - __shfl_sync(0xffffffffu, upto - own, at);
      const int from = __shfl_sync(0xffffffffu, first, at) + of_expert * kM;
      return {base + at, from, min(from + kM, __shfl_sync(0xffffffffu, last, at))};
    }
    before += __shfl_sync(0xffffffffu, upto, 31);
  }
  tiles = before;
  return {-1, 0, 0};
}

// At most so many tiles have rows.
inline int64_t most_row_tiles(int64_t P, int64_t E, int64_t kM) { return std::min(P, P / kM + E); }

}  // namespace weft::cuda
