// Grouped matmuls of many rows in bf16 on Hopper, by persistent blocks. Two warpgroups compute tiles of 128x192 in turns: one multiplies
// while the other stores its sums. One thread loads the tiles of both by TMA, in the order in which they are multiplied.
#pragma once

#include "weft/ops/grouped_matmul/cuda/small_tiles.cuh"
#include "weft/tile/cuda/tma.cuh"
#include "weft/tile/cuda/wgmma_192.cuh"

namespace weft::cuda {

// 192 columns: the sums take 192 of a thread's 240 registers, and loads per product are a sixth less than with tiles of 128x128.
template <bool kTransposed_>
struct GroupedTiles {
  static constexpr bool kTransposed = kTransposed_;  // b is [E, N, K]
  static constexpr int kM = 128, kN = 192, kK = 64, kStages = 4, kThreads = 3 * 128, kWarps = 8;
  static constexpr int kLoadRegisters = 24, kComputeRegisters = 240;  // each of the 384 threads starts with 168
  using A = SwizzledTile<kM, kK>;
  using B = std::conditional_t<kTransposed, SwizzledTile<kN, kK>, SwizzledTile<kK, kN>>;
  using Box = SwizzledTile<16, 64>;  // staging memory in which a warp rearranges its sums
  static constexpr int kStageBytes = A::kBytes + B::kBytes;
  static constexpr int kBytes = kStages * kStageBytes + kWarps * Box::kBytes + 1024;  // 1024: to align the tiles
};

#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
inline constexpr int kGroupedThreads = GroupedTiles<false>::kThreads;
#else
inline constexpr int kGroupedThreads = 1;  // see kHopperThreads
#endif

#if WEFT_HAS_WGMMA

// Loads a Tile of matrix `matrix`, from `row` and `column` on.
template <class Tile>
__device__ __forceinline__ void load_matrix_tile(const Tile& tile, const CUtensorMap& map, uint32_t barrier, int matrix, int row,
                                                 int column) {
#pragma unroll
  for (int panel = 0; panel < Tile::kColumns / 64; ++panel)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];\n" ::"r"(
            tile.base + uint32_t(panel * Tile::kPanel)),
        "l"(&map), "r"(barrier), "r"(column + panel * 64), "r"(row), "r"(0), "r"(matrix)
        : "memory");
}

// One thread's view of the ring of stages; `next`: number of K blocks before the next one.
template <class Tiles>
struct GroupedRing {
  uint32_t tiles;
  TileBarriers barriers;
  uint32_t next = 0;
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
  // Ends this warp's use of a K block.
  __device__ __forceinline__ void release(uint32_t block) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(barriers.empty_at(stage(block)));
  }
};

// One warp loads the K blocks of all tiles of this block.
template <class Tiles>
__device__ __forceinline__ void load_tiles(const GroupedParams& p, int column_tiles, const CUtensorMap& a_map, const CUtensorMap& b_map,
                                           GroupedRing<Tiles> ring) {
  const int k_blocks = (p.K + Tiles::kK - 1) / Tiles::kK;
  for (int number = int(blockIdx.x);; number += int(gridDim.x)) {
    int tiles = 0;
    const RowTile rows = row_tile<Tiles::kM>(p.rows, number / column_tiles, tiles);
    if (rows.expert < 0) return;
    if (threadIdx.x != 0) continue;
    const int column = number % column_tiles * Tiles::kN;
    for (int k = 0; k < k_blocks; ++k, ++ring.next) {
      ring.wait_empty(ring.next);
      const uint32_t full = ring.barriers.full_at(ring.stage(ring.next));
      barrier_arrive_expecting(full, Tiles::kStageBytes);
      load_matrix_tile(ring.a(ring.next), a_map, full, 0, rows.first, k * Tiles::kK);
      if constexpr (Tiles::kTransposed)
        load_matrix_tile(ring.b(ring.next), b_map, full, rows.expert, column, k * Tiles::kK);
      else
        load_matrix_tile(ring.b(ring.next), b_map, full, rows.expert, k * Tiles::kK, column);
    }
  }
}

// The two warpgroups take turns: one begins to multiply when the other has multiplied its tile. Without turns a group that is a tile ahead
// could mistake an older phase of a stage for its own, because a wait sees only the parity. Named barriers 1 and 2 are for groups 0 and 1.
__device__ __forceinline__ void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;\n" ::"r"(1 + group) : "memory"); }
__device__ __forceinline__ void pass_turn(int group) { asm volatile("bar.arrive %0, 256;\n" ::"r"(2 - group) : "memory"); }

// sums += a b over the K blocks of a tile: rows [0, 64) and [64, 128).
template <class Tiles>
__device__ __forceinline__ void multiply_tile(float (&sums)[2][96], const GroupedRing<Tiles>& ring, int k_blocks) {
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
  wgmma_wait<0>();
  pin(sums[0]);
  pin(sums[1]);
  ring.release(ring.next + uint32_t(k_blocks) - 1);
}

// Stores a warp's sums plus the bias: rows [16 w, 16 w + 16) of both halves of the tile, as far as they are the expert's. Goes through a
// box of 16 x 64, so that stores are 128 bytes of a row.
template <class Tiles>
__device__ __forceinline__ void store_tile(const float (&sums)[2][96], const GroupedParams& p, const RowTile& rows, int column,
                                           const typename Tiles::Box& box, __nv_bfloat16* c) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int i = 0; i < 2 * (Tiles::kN / 64); ++i) {
    const int row0 = rows.first + i % 2 * 64 + warp * 16, column0 = column + i / 2 * 64;
    __syncwarp();
#pragma unroll
    for (int at = 0; at < 64; at += 16) {
      float x[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x[e] = sums[i % 2][i / 2 * 32 + at / 2 + e];
        const int n = column0 + at + e / 4 * 8 + lane % 4 * 2 + e % 2;
        if (p.bias && n < p.N) x[e] += p.bias_at<__nv_bfloat16>(rows.expert, n);
      }
      store_matrices(box.address(lane % 16, at + lane / 16 * 8), {pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7])});
    }
    __syncwarp();
#pragma unroll
    for (int piece = lane; piece < 16 * 8; piece += 32) {
      const int row = row0 + piece / 8, n = column0 + piece % 8 * 8;
      if (row < rows.last && n < p.N) *reinterpret_cast<uint4*>(c + row * p.c_stride + n) = box.piece(piece / 8, piece % 8 * 8);
    }
  }
}

#endif  // WEFT_HAS_WGMMA

// Equation: c[i] = a[i] op(b[e]) + bias[e] for the rows i of expert e.
// Layout:   as grouped_mma; a and b by their maps.
// Order:    K in blocks of 16, one wgmma after the other from zero; K is padded with zeros. Then the bias.
// Requires: sm_90a; maps with boxes of kM rows (a), kK or kN (b); aligned rows, N a multiple of 8; kGroupedThreads threads. A tile may load
//           rows of the next expert; it does not store them.
// Traffic:  a and b once per tile, mostly from L2; one write of c.
template <class Tiles>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    grouped_hopper(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c,
                   const GroupedParams p) {
#if WEFT_HAS_WGMMA
  constexpr int kStages = Tiles::kStages;
  extern __shared__ unsigned char bytes[];
  __shared__ __align__(16) uint64_t barriers[2 * kStages];
  const uint32_t tiles = (shared_address(bytes) + 1023) & ~1023u;
  GroupedRing<Tiles> ring{tiles, {shared_address(barriers)}};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(ring.barriers.full_at(i), 1);   // the thread that loads
      barrier_init(ring.barriers.empty_at(i), 4);  // the warps that multiply
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  if (blockIdx.x == 0) p.rows.check(p.fault, p.op);
  __syncthreads();  // makes the initialized barriers visible
  const int group = int(threadIdx.x) / 128 - 1, column_tiles = (p.N + Tiles::kN - 1) / Tiles::kN,
            k_blocks = (p.K + Tiles::kK - 1) / Tiles::kK;
  if (group < 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    if (threadIdx.x < 32) load_tiles<Tiles>(p, column_tiles, a_map, b_map, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    const typename Tiles::Box box{tiles + uint32_t(kStages * Tiles::kStageBytes + (int(threadIdx.x) / 32 - 4) * Tiles::Box::kBytes)};
    ring.next = uint32_t(group * k_blocks);
    if (group == 1) pass_turn(group);
#pragma unroll 1
    for (int number = int(blockIdx.x) + group * int(gridDim.x);; number += 2 * int(gridDim.x)) {
      int all = 0;
      const RowTile rows = row_tile<Tiles::kM>(p.rows, number / column_tiles, all);
      if (rows.expert < 0) return;
      float sums[2][96] = {};
      wait_for_turn(group);
      multiply_tile<Tiles>(sums, ring, k_blocks);
      pass_turn(group);
      ring.next += uint32_t(2 * k_blocks);
      store_tile<Tiles>(sums, p, rows, number % column_tiles * Tiles::kN, box, c);
    }
  }
#endif
}

}  // namespace weft::cuda
