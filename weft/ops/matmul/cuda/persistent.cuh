// Matmuls of many rows in bf16 on Hopper, by persistent blocks, with a fused epilogue (persistent_epilogues.cuh). Two warpgroups compute
// tiles in turns: one multiplies while the other runs its epilogue and stores the result. One thread loads the tiles of both by TMA, in the
// order in which they are multiplied.
#pragma once

#include "weft/tile/cuda/tma.cuh"
#include "weft/tile/cuda/wgmma_192.cuh"

namespace weft::cuda {

inline constexpr int kComputeWarps = 8;

// 192 columns: the sums of a tile of 128x192 take 192 of a thread's registers. A K block needs 40 KiB of loads, a sixth less per product
// than with 128x128.
//
// The kCluster blocks of a cluster take vertically adjacent tiles, and each loads a part of their common b for all.
template <bool kTransposed_, int kCluster_>
struct PersistentMatmul {
  static constexpr bool kTransposed = kTransposed_;  // b is [N, K]
  static constexpr int kCluster = kCluster_;
  static constexpr int kM = 128, kN = 192, kK = 64, kStages = 4, kThreads = 3 * 128;
  static constexpr int kLoadRegisters = 40, kComputeRegisters = 232;  // each of the 384 threads starts with 168
  using A = SwizzledTile<kM, kK>;
  using B = std::conditional_t<kTransposed, SwizzledTile<kN, kK>, SwizzledTile<kK, kN>>;
  static constexpr int kStageBytes = A::kBytes + B::kBytes, kBoxOfB = B::kRows / kCluster;  // rows of b that a block loads
  // A warp's epilogue handles boxes of 16 x 64 sums, staged in a box of c and one of the other matrix; two of each, used alternately.
  using Box = SwizzledTile<16, 64>;
  static constexpr int kPanels = kN / Box::kColumns;
  static constexpr int kBoxes = 4, kWarpBytes = kBoxes * Box::kBytes;
  static constexpr int kBytes = kStages * kStageBytes + kComputeWarps * kWarpBytes + 1024;  // 1024: to align the tiles
};

#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
#define WEFT_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
inline constexpr int kPersistentMatmulThreads = 3 * 128;
#else
#define WEFT_CLUSTER(blocks)
inline constexpr int kPersistentMatmulThreads = 1;  // as kPersistentThreads of attention
#endif

struct PersistentMatmulParams {
  int M, N, k_blocks;
  int row_tiles, column_tiles,
      columns_at_once;  // the tiles of a cluster count as one; tiles are taken row by row within groups of columns_at_once columns
};

#if WEFT_HAS_WGMMA

struct MatmulTile {
  int row, column;  // of its first element

  template <class Tiles>
  __device__ __forceinline__ static MatmulTile of(const PersistentMatmulParams& p, int number) {
    const int per_round = p.row_tiles * p.columns_at_once, first = number / per_round * p.columns_at_once, rest = number % per_round;
    const int columns = min(p.columns_at_once, p.column_tiles - first);
    const int in_cluster = int(blockIdx.x) % Tiles::kCluster;
    return {(rest / columns * Tiles::kCluster + in_cluster) * Tiles::kM, (first + rest % columns) * Tiles::kN};
  }
};

// One thread's view of the ring of stages.
template <class Tiles>
struct KBlockRing {
  uint32_t tiles;
  TileBarriers barriers;
  uint32_t next = 0;  // number of K blocks before the next one
  static_assert((Tiles::kStages & (Tiles::kStages - 1)) == 0);

  __device__ __forceinline__ int stage(uint32_t block) const { return int(block % Tiles::kStages); }
  __device__ __forceinline__ typename Tiles::A a(uint32_t block) const { return {tiles + uint32_t(stage(block) * Tiles::kStageBytes)}; }
  __device__ __forceinline__ typename Tiles::B b(uint32_t block) const { return {a(block).base + Tiles::A::kBytes}; }
  __device__ __forceinline__ void wait_full(uint32_t block) const {
    barrier_wait(barriers.full_at(stage(block)), block / Tiles::kStages & 1);
  }
  __device__ __forceinline__ void wait_empty(uint32_t block) const {
    barrier_wait(barriers.empty_at(stage(block)), (block / Tiles::kStages & 1) ^ 1);
  }
  // Releases this warp's K block to every block of the cluster that loads a part of it.
  __device__ __forceinline__ void release(uint32_t block) const {
    __syncwarp();
    const uint32_t empty = barriers.empty_at(stage(block));
    if constexpr (Tiles::kCluster == 1) {
      if (threadIdx.x % 32 == 0) barrier_arrive(empty);
    } else {
      if (threadIdx.x % 32 < Tiles::kCluster) barrier_arrive_in(empty, int(threadIdx.x % 32));
    }
  }
};

// One thread loads the K blocks of all tiles of this block.
template <class Tiles>
__device__ __forceinline__ void load_tiles(const PersistentMatmulParams& p, const CUtensorMap& a_map, const CUtensorMap& b_map,
                                           KBlockRing<Tiles> ring) {
  const int count = p.row_tiles * p.column_tiles, first_row = int(blockIdx.x) % Tiles::kCluster * Tiles::kBoxOfB;
  constexpr uint16_t kAll = (1 << Tiles::kCluster) - 1;
  for (int number = int(blockIdx.x) / Tiles::kCluster; number < count; number += int(gridDim.x) / Tiles::kCluster) {
    const MatmulTile tile = MatmulTile::of<Tiles>(p, number);
    for (int k = 0; k < p.k_blocks; ++k, ++ring.next) {
      ring.wait_empty(ring.next);
      const uint32_t full = ring.barriers.full_at(ring.stage(ring.next));
      barrier_arrive_expecting(full, Tiles::kStageBytes);
      load_tile(ring.a(ring.next), a_map, full, tile.row, k * Tiles::kK);
      const int row = Tiles::kTransposed ? tile.column : k * Tiles::kK, column = Tiles::kTransposed ? k * Tiles::kK : tile.column;
      load_rows_in<kAll>(ring.b(ring.next), first_row, b_map, full, row + first_row, column);
    }
  }
}

// The warpgroups multiply in turns; a turn passes with the last K block. So a warpgroup never waits for a stage of the ring more than one
// round ahead: the parity of a barrier could not tell that round from an older one.
struct Turns {
  uint32_t own, others;  // barriers
  uint32_t parity;       // of this warpgroup's next turn

  __device__ __forceinline__ void wait() {
    barrier_wait(own, parity);
    parity ^= 1;
  }
  __device__ __forceinline__ void pass() const {
    if (threadIdx.x % 32 == 0) barrier_arrive(others);
  }
};

// sums += a b over the K blocks of a tile: rows [0, 64) and [64, 128).
template <class Tiles>
__device__ __forceinline__ void multiply_tile(float (&sums)[2][96], const KBlockRing<Tiles>& ring, Turns& turns, int k_blocks) {
  turns.wait();
  pin(sums[0]);
  pin(sums[1]);
#pragma unroll 1
  for (int k = 0; k < k_blocks; ++k) {
    const uint32_t block = ring.next + uint32_t(k);
    ring.wait_full(block);
    const auto a = ring.a(block);
    const auto b = ring.b(block);
    wgmma_begin();
#pragma unroll
    for (int at = 0; at < Tiles::kK; at += 16) {
      const uint64_t right = Tiles::kTransposed ? b.by_rows(0, at) : b.by_columns(at);
      multiply_add<!Tiles::kTransposed>(sums[0], a.by_rows(0, at), right);
      multiply_add<!Tiles::kTransposed>(sums[1], a.by_rows(64, at), right);
    }
    wgmma_commit();
    if (k > 0) {
      wgmma_wait<1>();
      ring.release(block - 1);
    }
  }
  turns.pass();
  wgmma_wait<0>();
  pin(sums[0]);
  pin(sums[1]);
  ring.release(ring.next + uint32_t(k_blocks) - 1);
}

#endif  // WEFT_HAS_WGMMA

// Equation: c = f(a op(b)), f the epilogue's function.
// Layout:   a [M, K], b [K, N] or [N, K], c [M, N], by their maps; other: as the epilogue has it.
// Order:    K in blocks of 16, one wgmma after the other from zero; K is padded with zeros. Then the epilogue's order.
// Requires: sm_90a; maps with boxes of kM rows (a), kBoxOfB (b) and 16 (c, other); N even; kPersistentMatmulThreads threads; a multiple of
//           kCluster blocks.
// Traffic:  a and b once per tile, mostly from L2; one write of c, and the epilogue's traffic.
template <class Tiles, class Epilogue>
__global__ void WEFT_CLUSTER(Tiles::kCluster) __launch_bounds__(kPersistentMatmulThreads, 1)
    matmul_persistent(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const __grid_constant__ CUtensorMap c_map, const __grid_constant__ CUtensorMap other_map,
                      const PersistentMatmulParams p, const Epilogue epilogue) {
#if WEFT_HAS_WGMMA
  constexpr int kStages = Tiles::kStages;
  extern __shared__ unsigned char bytes[];
  __shared__ __align__(16) uint64_t barriers[2 * kStages + 2 + kComputeWarps * Epilogue::kBarriers];  // full, empty; turns; the epilogue's
  const uint32_t tiles = (shared_address(bytes) + 1023) & ~1023u;
  KBlockRing<Tiles> ring{tiles, {shared_address(barriers)}};
  const uint32_t turns_at = ring.barriers.full_at(kStages), epilogue_at = turns_at + 16;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(ring.barriers.full_at(i), 1);                     // the loading thread
      barrier_init(ring.barriers.empty_at(i), 4 * Tiles::kCluster);  // the multiplying warps
    }
    for (int i = 0; i < 2; ++i) barrier_init(turns_at + 8 * uint32_t(i), 4);  // the warps of the other warpgroup
    for (int i = 0; i < kComputeWarps * Epilogue::kBarriers; ++i) barrier_init(epilogue_at + 8 * uint32_t(i), 1);
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  cluster_sync();  // makes the initialized barriers visible
  const int group = int(threadIdx.x) / 128 - 1;
  if (group < 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    if (threadIdx.x == 0) load_tiles<Tiles>(p, a_map, b_map, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32, count = p.row_tiles * p.column_tiles;
    typename Epilogue::template Warp<Tiles> finish{epilogue,
                                                   c_map,
                                                   other_map,
                                                   tiles + uint32_t(kStages * Tiles::kStageBytes + (group * 4 + warp) * Tiles::kWarpBytes),
                                                   epilogue_at + uint32_t((group * 4 + warp) * Epilogue::kBarriers * 8),
                                                   p.M,
                                                   p.N,
                                                   warp,
                                                   lane};
    ring.next = uint32_t(group * p.k_blocks);
    Turns turns{turns_at + 8 * uint32_t(group), turns_at + 8 * uint32_t(1 - group), uint32_t(1 - group)};  // group 0 begins
#pragma unroll 1
    for (int number = int(blockIdx.x + uint32_t(group) * gridDim.x) / Tiles::kCluster; number < count;
         number += 2 * int(gridDim.x) / Tiles::kCluster) {
      const MatmulTile tile = MatmulTile::of<Tiles>(p, number);
      finish.begin(tile);
      float sums[2][96] = {};
      multiply_tile<Tiles>(sums, ring, turns, p.k_blocks);
      ring.next += uint32_t(2 * p.k_blocks);
      finish(sums, tile);
    }
    stores_wait<0>();  // asynchronous stores still read shared memory
  }
  cluster_sync();  // and other blocks may still write to it
#endif
}

}  // namespace weft::cuda
