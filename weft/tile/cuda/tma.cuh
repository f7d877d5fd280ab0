// Loads by the Tensor Memory Accelerator of sm_90: one thread asks for a box of a tensor, the hardware computes its addresses, swizzles
// it and writes zeros where the tensor ends. The tensor's address, extents and strides are in a map that the host makes.
#pragma once

#include <cuda.h>

#include "weft/tile/cuda/wgmma.cuh"

namespace weft::cuda {

// Makes a map of the first T tokens of [B, T or more, H, D] in bf16 whose boxes are `rows` tokens by 64 columns of one head, laid out as
// SwizzledTile. False if this driver has no maps or refuses the strides. The driver's function is looked up at run time: the tool starts
// without a driver.
inline bool map_heads(CUtensorMap& map, const View& v, int64_t T, int rows) {
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                   const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    constexpr unsigned kFirstVersion = 12000;  // CUDA 12.0 has the function
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kFirstVersion, cudaEnableDefault, &found);
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
  }();
  if (!encode) return false;
  const auto extent = [&](int i) { return cuuint64_t(v.shape[size_t(i)]); };
  const auto bytes = [&](int i) { return cuuint64_t(v.strides[size_t(i)]) * sizeof(__nv_bfloat16); };
  const cuuint64_t extents[] = {extent(3), cuuint64_t(T), extent(2), extent(0)}, strides[] = {bytes(1), bytes(2), bytes(0)};
  const cuuint32_t box[] = {64, cuuint32_t(rows), 1, 1}, steps[] = {1, 1, 1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<__nv_bfloat16*>(data<__nv_bfloat16>(v)), extents, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#if WEFT_HAS_WGMMA

// Two mbarriers for each stage: full (its tile has arrived) and empty (its tile has been read).
struct TileBarriers {
  uint32_t at;
  __device__ __forceinline__ uint32_t full_at(int stage) const { return at + uint32_t(stage) * 16; }
  __device__ __forceinline__ uint32_t empty_at(int stage) const { return full_at(stage) + 8; }
};

// The stages of a tile in shared memory, used in turns, as one thread sees them: its next stage and how often it has gone round.
template <class Tile_, int kStages>
struct TileRing {
  using Tile = Tile_;
  static constexpr int kBytes = kStages * Tile::kBytes;
  uint32_t tiles;  // address of the first stage
  TileBarriers barriers;
  int stage = 0;
  uint32_t round = 0;  // modulo 2

  __device__ __forceinline__ Tile tile() const { return {tiles + uint32_t(stage) * Tile::kBytes}; }
  __device__ __forceinline__ uint32_t full() const { return barriers.full_at(stage); }
  __device__ __forceinline__ uint32_t empty() const { return barriers.empty_at(stage); }
  __device__ __forceinline__ void wait_full() const { barrier_wait(full(), round); }
  __device__ __forceinline__ void wait_empty() const { barrier_wait(empty(), round ^ 1); }
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, round ^= 1;
  }
  // Ends this warp's use of the stage: the next tile may be loaded into it.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty());
    next();
  }
};

// Arrives at a barrier whose phase also waits for `bytes` of loads.
__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}
// Loads the columns of Tile from token t on of head h of sequence b; they arrive at `barrier`, which must expect them.
template <class Tile>
__device__ __forceinline__ void load_tile(const Tile& tile, const CUtensorMap& map, uint32_t barrier, int b, int t, int h) {
#pragma unroll
  for (int column = 0; column < Tile::kColumns; column += 64)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];\n" ::"r"(
            tile.base + uint32_t(column / 64 * Tile::kPanel)),
        "l"(&map), "r"(barrier), "r"(column), "r"(t), "r"(h), "r"(b)
        : "memory");
}
// Loads the next tile of a ring as soon as its stage is empty. Called by one thread.
template <class Ring>
__device__ __forceinline__ void load_next(Ring& ring, const CUtensorMap& map, int b, int t, int h) {
  ring.wait_empty();
  barrier_arrive_expecting(ring.full(), Ring::Tile::kBytes);
  load_tile(ring.tile(), map, ring.full(), b, t, h);
  ring.next();
}

#endif  // WEFT_HAS_WGMMA

}  // namespace weft::cuda
