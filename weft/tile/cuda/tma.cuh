// Loads by the Tensor Memory Accelerator of sm_90: one thread asks for a box of a tensor, the hardware computes its addresses, swizzles
// it and writes zeros where the tensor ends. The tensor's address, extents and strides are in a map that the host makes.
#pragma once

#include <cuda.h>

#include <array>

#include "weft/tile/cuda/wgmma.cuh"

namespace weft::cuda {

// Whether a Hopper kernel was compiled for sm_90a and can run on the current GPU.
template <class... Parameters>
bool compiled_for(void (*kernel)(Parameters...), int threads) {
  cudaFuncAttributes compiled{};
  return cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess && compiled.maxThreadsPerBlock >= threads;
}

// The driver's function that encodes tensor maps, or null if the driver has none. Looked up at run time, so that the tool starts without a
// driver.
using EncodeMap = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                               const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                               CUtensorMapFloatOOBfill);
inline EncodeMap encode_map() {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    constexpr unsigned kFirstVersion = 12000;  // CUDA 12.0 has the function
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kFirstVersion, cudaEnableDefault, &found);
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeMap>(function) : nullptr;
  }();
  return encode;
}

// Encodes a map of a bf16 tensor whose boxes are laid out as SwizzledTile: 64 elements of the first axis, which is contiguous, and `box`
// elements of the others. strides: bytes along the others. Returns false if the driver has no tensor maps or refuses these.
template <size_t kRank>
bool map_tensor(CUtensorMap& map, const void* data, const std::array<cuuint64_t, kRank>& extents,
                const std::array<cuuint64_t, kRank - 1>& strides, const std::array<cuuint32_t, kRank>& box) {
  std::array<cuuint32_t, kRank> steps;
  steps.fill(1);
  const EncodeMap encode = encode_map();
  return encode && encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(data), extents.data(), strides.data(),
                          box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// A map of the first T tokens of [B, T or more, H, D]; a box has `rows` tokens by 64 columns of one head.
inline bool map_heads(CUtensorMap& map, const View& v, int64_t T, int rows) {
  const auto extent = [&](int i) { return cuuint64_t(v.shape[size_t(i)]); };
  const auto bytes = [&](int i) { return cuuint64_t(v.strides[size_t(i)]) * sizeof(__nv_bfloat16); };
  return map_tensor<4>(map, data<__nv_bfloat16>(v), {extent(3), cuuint64_t(T), extent(2), extent(0)}, {bytes(1), bytes(2), bytes(0)},
                       {64, cuuint32_t(rows), 1, 1});
}

// A map of a matrix whose rows are `stride` elements apart; a box has `box_rows` rows by 64 columns.
inline bool map_matrix(CUtensorMap& map, const __nv_bfloat16* data, int64_t rows, int64_t columns, int64_t stride, int box_rows) {
  return map_tensor<2>(map, data, {cuuint64_t(columns), cuuint64_t(rows)}, {cuuint64_t(stride) * sizeof(__nv_bfloat16)},
                       {64, cuuint32_t(box_rows)});
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
// Loads a Tile of a matrix, from `row` and `column` on.
template <class Tile>
__device__ __forceinline__ void load_tile(const Tile& tile, const CUtensorMap& map, uint32_t barrier, int row, int column) {
#pragma unroll
  for (int panel = 0; panel < Tile::kColumns / 64; ++panel)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4}], [%2];\n" ::"r"(
                     tile.base + uint32_t(panel * Tile::kPanel)),
                 "l"(&map), "r"(barrier), "r"(column + panel * 64), "r"(row)
                 : "memory");
}
// Clusters of blocks: a barrier over all their threads; an arrival at `barrier` of block `block`; and a multicast load of rows, from row
// `first` of the tile on, to the same address in all blocks of the mask kBlocks, which arrives at each block's barrier.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive_in(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, "
      "[there];\n}\n" ::"r"(barrier),
      "r"(block)
      : "memory");
}
template <uint16_t kBlocks, class Tile>
__device__ __forceinline__ void load_rows_in(const Tile& tile, int first, const CUtensorMap& map, uint32_t barrier, int row, int column) {
#pragma unroll
  for (int panel = 0; panel < Tile::kColumns / 64; ++panel)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3,%4}], [%2], "
        "%5;\n" ::"r"(tile.base + uint32_t(panel * Tile::kPanel + first * 128)),
        "l"(&map), "r"(barrier), "r"(column + panel * 64), "r"(row), "h"(kBlocks)
        : "memory");
}
// Stores a box of a matrix asynchronously, as part of this thread's next group of stores; elements outside the matrix are not stored.
__device__ __forceinline__ void store_box(const CUtensorMap& map, uint32_t from, int row, int column) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2,%3}], [%1];\n" ::"l"(&map), "r"(from), "r"(column), "r"(row)
               : "memory");
}
__device__ __forceinline__ void stores_end() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }
// Waits until at most kPending groups of this thread's stores still read shared memory.
template <int kPending>
__device__ __forceinline__ void stores_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kPending) : "memory");
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
