// Tiles over the rows of experts: the rows of each expert are cut into tiles of kM, starting at its first row. The host does not know the
// counts; a warp finds the rows of a tile by adding the numbers of tiles of the experts before it.
#pragma once

#include "weft/tile/cuda/fault.cuh"

namespace weft::cuda {

// starts [E + 1], ascending from 0 to P. check() reports a fault otherwise; rows are then clamped to [0, P).
struct ExpertRows {
  const int32_t* starts;
  int E, P;

  __device__ __forceinline__ int start(int e) const { return min(max(starts[min(e, E)], 0), P); }

  // Called by all threads of one block.
  __device__ __forceinline__ void check(Fault* fault, const char* op) const {
    for (int e = int(threadIdx.x); e <= E; e += int(blockDim.x)) {
      const int value = starts[e], least = e == 0 ? 0 : starts[e - 1], most = e == 0 ? 0 : P;
      if (value < least || value > most || (e == E && value != P)) report(fault, Fault::bad_documents, op, value, e, P);
    }
  }
};

// Rows [first, last) of one expert; expert is -1 if there are none.
struct RowTile {
  int expert, first, last;
};

// Tile number `tile` of kM rows. If it does not exist, `tiles` is set to the number of tiles. Called by a whole warp.
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

// Upper bound of the number of tiles.
inline int64_t most_row_tiles(int64_t P, int64_t E, int64_t kM) { return std::min(P, P / kM + E); }

}  // namespace weft::cuda
