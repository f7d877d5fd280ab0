// Work of the persistent backward pass: its tiles of keys in the order in which blocks take them, its shared memory, and the thread that
// loads.
#pragma once

#include "weft/ops/causal_attention/cuda/backward_hopper.cuh"

namespace weft::cuda {

template <int kD_>
struct PersistentBackwardTiles : HopperBackwardTiles<kD_> {
  static constexpr int kComputeRegisters = 232, kLoadRegisters = 40, kAddWarps = 2;
  static constexpr bool kKeysInRegisters = kD_ == 64;  // as left operands of S and dP
  // The second half of the keys is after all queries of a diagonal's first tile: with two squares of dQ its warpgroup skips that step.
  static constexpr bool kSkip = kD_ == 128;
};

// Sums of dQ (f32), q and do of the heads in work at a time fit into this much of the 50 MiB of L2.
inline constexpr int64_t kPersistentBackwardL2 = 16 << 20;

// The order in which blocks take tiles of keys, chosen so that no tile waits for a later one: `round` key heads at a time, head by head of
// their groups; within these `at_once` key heads, from their last tiles to their first. A round is all key heads, so that the first head of
// a tile is done long before its second is taken (measured on an H200, B2 H32/8 T8192 D128: rounds of 6 of the 16 key heads, three tiles
// per block, 411 TFLOP/s; of 8, 465; of all, 478).
struct KeyTiles {
  unsigned* next;     // counter; zero at the start
  unsigned* carried;  // [B Hkv key tiles]: warps that have stored dK and dV for the next head; zero at the start
  float* carry;       // dK and dV between heads, as the fragments of their threads; absent if no heads share keys
  const float* rows;  // for each tile of queries: its lse in log2, then its delta
  int B, round, at_once;
};

// Equation: rows of a tile of kM queries: lse in log2, then delta; past the last query +inf and 0, which make P and dS zero.
// Layout:   lse, delta [B, H, T]; rows [B, H, tiles, 2, kM].
// Order:    no sums; a thread per row.
// Requires: nothing more.
// Traffic:  one read, one write.
template <int kM>
__global__ void __launch_bounds__(256) tile_rows(const float* lse, const float* delta, float* rows, int T, int tiles, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x, head = i / (int64_t(tiles) * kM);
  const int t = int(i - head * tiles * kM);
  if (i >= count) return;
  float* to = rows + (head * tiles + t / kM) * (2 * kM) + t % kM;
  to[0] = t < T ? lse[head * T + t] * kLog2e : __builtin_huge_valf();
  to[kM] = t < T ? delta[head * T + t] : 0.0f;
}

template <class Tiles>
struct PersistentBackwardMemory : HopperBackwardMemory<Tiles> {
  using Base = HopperBackwardMemory<Tiles>;
  static constexpr int kTiles = Base::kBytes - 1024, kStages = Tiles::kStages;  // 1024: the base is aligned here
  static constexpr int kBytes = kTiles + 16 * (1 + kStages + 2 + 2) + 16;
#if WEFT_HAS_WGMMA
  __device__ __forceinline__ TileBarriers kv() const { return {this->base + kTiles}; }
  __device__ __forceinline__ TileBarriers steps() const { return {kv().at + 16}; }
  __device__ __forceinline__ TileBarriers ds() const { return {steps().at + 16 * kStages}; }
  __device__ __forceinline__ TileBarriers dq() const { return {ds().at + 32}; }
  __device__ __forceinline__ uint32_t number() const { return dq().at + 32; }  // of the tile of keys in work, -1: none

  __device__ __forceinline__ void init_barriers() const {
    barrier_init(kv().full_at(0), 1);                                              // the thread that loads
    barrier_init(kv().empty_at(0), 4 * Tiles::kComputeGroups + Tiles::kAddWarps);  // all other warps
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(steps().full_at(stage), 1);
      barrier_init(steps().empty_at(stage), 128 * Tiles::kComputeGroups);  // every computing thread
    }
    for (int buffer = 0; buffer < 2; ++buffer) {
      barrier_init(ds().full_at(buffer), 4 * Tiles::kComputeGroups);
      barrier_init(ds().empty_at(buffer), 4 * Base::kSquares);   // every warp that reads it for dQ
      barrier_init(dq().full_at(buffer), 128 * Base::kSquares);  // every thread that writes it
      barrier_init(dq().empty_at(buffer), 32);                   // every lane of the warp that adds
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  // The number of the next tile of keys, once its keys have arrived.
  __device__ __forceinline__ int wait_number(uint32_t round) const {
    barrier_wait(kv().full_at(0), round);
    return read_number();
  }
  // Reads the same number before this warp arrives at kv().empty; called by the lane that arrives.
  __device__ __forceinline__ int read_number() const {
    int x = 0;
    if (threadIdx.x % 32 == 0) asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(x) : "r"(number()) : "memory");
    return __shfl_sync(0xffffffffu, x, 0);
  }
#endif
};

#if WEFT_HAS_WGMMA

// A piece of work: a tile of 128 keys and one of the heads that share them, with a step for each tile of queries from the diagonal on.
struct KeyTile {
  int b, hkv, g, h, j, n0, first, steps;  // head h is the g-th of those that share keys

  template <class Tiles>
  __device__ __forceinline__ static KeyTile of(const KeyTiles& all, const BackwardParams& p, int number) {
    const int kt = p.key_tiles, group = p.H / p.Hkv, per_round = all.round * group * kt;
    const int head0 = number / per_round * all.round, heads = min(all.round, all.B * p.Hkv - head0);
    const int g = number % per_round / (heads * kt), in_head = number % per_round % (heads * kt);
    const int some0 = in_head / (all.at_once * kt) * all.at_once, some = min(all.at_once, heads - some0);
    const int in_some = in_head % (all.at_once * kt), head = head0 + some0 + in_some % some, j = kt - 1 - in_some / some;
    const int hkv = head % p.Hkv, first = j * Tiles::kN / Tiles::kM;
    return {head / p.Hkv, hkv, g, hkv * group + g, j, j * Tiles::kN, first, p.query_tiles - first};
  }
  __device__ __forceinline__ int64_t carry_index(const BackwardParams& p) const { return (int64_t(b) * p.Hkv + hkv) * p.key_tiles + j; }
  __device__ __forceinline__ int64_t query_index(const BackwardParams& p, int step) const {
    return (int64_t(b) * p.H + h) * p.query_tiles + first + step;
  }
};

__device__ __forceinline__ void load_bulk(uint32_t to, const float* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to), "l"(from), "r"(bytes),
               "r"(barrier)
               : "memory");
}

struct BackwardMaps {
  const CUtensorMap &q, &k, &v, &dout;
};

// One thread loads the keys of each tile that this block takes, and queries, do, lse and delta of its steps.
template <class Tiles>
__device__ __forceinline__ void load_key_tiles(const BackwardParams& p, const KeyTiles& all, const BackwardMaps& maps,
                                               const PersistentBackwardMemory<Tiles>& memory) {
  using Memory = PersistentBackwardMemory<Tiles>;
  const int count = p.key_tiles * all.B * p.H;
  const TileBarriers kv = memory.kv(), ring = memory.steps();
  const auto publish = [&](uint32_t round, int number) {
    barrier_wait(kv.empty_at(0), round ^ 1);
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(memory.number()), "r"(number) : "memory");
  };
  uint32_t round = 0;
  for (int use = 0;; round ^= 1) {
    const int number = int(atomicAdd(all.next, 1u));
    if (number >= count) break;
    const KeyTile tile = KeyTile::of<Tiles>(all, p, number);
    for (int step = 0; step < tile.steps; ++step, ++use) {
      const int stage = use % Tiles::kStages, m0 = (tile.first + step) * Tiles::kM;
      const uint32_t full = ring.full_at(stage);
      wait_empty(ring, Tiles::kStages, use);
      barrier_arrive_expecting(full, 2 * Memory::Queries::kBytes + Memory::kRows);
      load_tile(memory.queries(stage), maps.q, full, tile.b, m0, tile.h);
      load_tile(memory.douts(stage), maps.dout, full, tile.b, m0, tile.h);
      load_bulk(memory.rows(stage), all.rows + tile.query_index(p, step) * (2 * Tiles::kM), Memory::kRows, full);
      if (step > 0) continue;
      if (tile.g > 0)
        while (load_acquire(all.carried + tile.carry_index(p)) != unsigned(tile.g * 4 * Tiles::kComputeGroups)) __nanosleep(20);
      publish(round, number);
      barrier_arrive_expecting(kv.full_at(0), 2 * Memory::Keys::kBytes);
      load_tile(memory.keys(), maps.k, kv.full_at(0), tile.b, tile.n0, tile.hkv);
      load_tile(memory.values(), maps.v, kv.full_at(0), tile.b, tile.n0, tile.hkv);
    }
  }
  publish(round, -1);
  barrier_arrive(kv.full_at(0));
}

#endif  // WEFT_HAS_WGMMA

}  // namespace weft::cuda
