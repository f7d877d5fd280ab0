// The forward pass in bf16 on Hopper without options (Shah et al., 2024), by persistent blocks: each takes tiles of queries, the longest
// first, until none is left. One thread loads queries, keys and values by TMA, the next tile's while this one ends; the warpgroups that
// compute have 64 queries each and issue their matmuls in turns, so that one takes exponentials while another's matmuls run.
#pragma once

#include "weft/ops/causal_attention/cuda/forward_hopper.cuh"

namespace weft::cuda {

// D = 64: three warpgroups (measured on an H200: 410 TFLOP/s at T 4096, two 374), for the exponentials take as long as the matmuls.
// D = 128: sums and scores of a third would not fit into the registers.
template <int kD_>
struct PersistentTiles {
  static constexpr int kD = kD_, kComputeGroups = kD == 64 ? 3 : 2, kThreads = 128 * (1 + kComputeGroups);
  static constexpr int kM = 64 * kComputeGroups, kN = kForwardKeys<kD>;
  // Stages of keys and of values, beside two tiles of queries, or one that is released once it is in registers: 176 and 224 of 227 KiB.
  static constexpr int kStages = kD == 64 ? 4 : 3, kQueryStages = kD == 64 ? 2 : 1;
  // The registers of a multiprocessor, 168 or 128 for each thread at the start: a thread that loads needs few.
  static constexpr int kLoadRegisters = kD == 64 ? 32 : 24, kComputeRegisters = kD == 64 ? 160 : 240;
  static_assert(kLoadRegisters + kComputeGroups * kComputeRegisters == (1 + kComputeGroups) * (kD == 64 ? 128 : 168));
  // A warpgroup whose diagonal is in the first half of a tile of keys multiplies by that half alone. Measured: 4 % more at D = 64,
  // 2 % less at D = 128.
  static constexpr bool kHalfTiles = kD == 64;
  // Queries are the left operand of the scores' wgmma in registers, so only keys are read from shared memory.
  static constexpr bool kQueriesInRegisters = kD == 128;
  using Queries = SwizzledTile<kM, kD>;
  using Keys = SwizzledTile<kN, kD>;
  static constexpr int kBytes = kQueryStages * Queries::kBytes + 2 * kStages * Keys::kBytes + 1024;  // 1024: to align the tiles
};
// K and V of the heads in work at a time fit into this much of the 50 MiB of L2: tiles are taken longest first among such heads.
inline constexpr int64_t kPersistentL2 = 24 << 20;

#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
template <int kD>
inline constexpr int kPersistentThreads = PersistentTiles<kD>::kThreads;
#else
template <int kD>
inline constexpr int kPersistentThreads = 1;  // see kHopperThreads
#endif

// Tiles of queries in the order in which blocks take them: `heads` heads at a time, from their last tiles to their first.
struct QueryTiles {
  int* next;  // after those that blocks begin with; zero at the start
  int B, tiles, heads;
};

#if WEFT_HAS_WGMMA

struct QueryTile {
  int b, h, m0, last;  // last: its last tile of keys

  template <class Tiles>
  __device__ __forceinline__ static QueryTile of(const QueryTiles& all, const ForwardParams& p, int number) {
    const int per_round = all.tiles * all.heads, head0 = number / per_round * all.heads, rest = number % per_round;
    const int heads = min(all.heads, all.B * p.H - head0), head = head0 + rest % heads, m0 = (all.tiles - 1 - rest / heads) * Tiles::kM;
    return {head / p.H, head % p.H, m0, (min(m0 + Tiles::kM, p.T) - 1) / Tiles::kN};
  }
};

// Shared memory of a block. `number`: of the tile whose queries are in each stage, or -1 after the last.
template <class Tiles>
struct PersistentMemory {
  TileRing<typename Tiles::Queries, Tiles::kQueryStages> queries;
  TileRing<typename Tiles::Keys, Tiles::kStages> keys, values;
  int* number;
};

// One thread loads the tiles of queries that this block takes and, for each, keys and values from the diagonal to the first. The values
// of a tile of keys are wanted a step later than its keys.
template <class Tiles>
__device__ __forceinline__ void load_work(const ForwardParams& p, const QueryTiles& all, const CUtensorMap& q_map, const CUtensorMap& k_map,
                                          const CUtensorMap& v_map, PersistentMemory<Tiles> memory) {
  const int count = all.tiles * all.B * p.H;
  for (int number = int(blockIdx.x); number < count; number = int(gridDim.x) + atomicAdd(all.next, 1)) {
    const QueryTile tile = QueryTile::of<Tiles>(all, p, number);
    const int hkv = tile.h / p.group;
    memory.queries.wait_empty();
    memory.number[memory.queries.stage] = number;
    load_next(memory.queries, q_map, tile.b, tile.m0, tile.h);
    load_next(memory.keys, k_map, tile.b, tile.last * Tiles::kN, hkv);
    for (int j = tile.last; j > 0; --j) {
      load_next(memory.keys, k_map, tile.b, (j - 1) * Tiles::kN, hkv);
      load_next(memory.values, v_map, tile.b, j * Tiles::kN, hkv);
    }
    load_next(memory.values, v_map, tile.b, 0, hkv);
  }
  memory.queries.wait_empty();
  memory.number[memory.queries.stage] = -1;
  barrier_arrive(memory.queries.full());
}

// A warpgroup issues matmuls in its turn, which named barrier 4 + group announces; 1 to 3 are warpgroup_barrier's. Each turn is passed
// on by one warpgroup and awaited by the next: 256 threads.
__device__ __forceinline__ void await_turn(int group) { asm volatile("bar.sync %0, 256;\n" ::"r"(4 + group) : "memory"); }
template <class Tiles>
__device__ __forceinline__ void pass_turn(int group) {
  asm volatile("bar.arrive %0, 256;\n" ::"r"(4 + (group + 1 == Tiles::kComputeGroups ? 0 : group + 1)) : "memory");
}

// Keeps the computation of `x`, never -1, before what follows: ptxas would move a wait for wgmma over it, and what runs asynchronously
// to that wait with it. Seen in the exponentials of the loop below; the store to `at` never happens.
__device__ __forceinline__ void stay_before(float x, uint32_t at) {
  asm volatile("{\n.reg .pred p;\nsetp.eq.f32 p, %0, 0fBF800000;\n@p st.shared.f32 [%1], %0;\n}\n" ::"f"(x), "r"(at) : "memory");
}

// Writes o / sum and lse of a warp's 16 rows, sixteen bytes at a time: through the queries' memory, or from registers if the next queries
// may already be there. Reports a sum that is not finite, which may come from 0 x inf of a masked value.
template <class Tiles, int N>
__device__ __forceinline__ void store_output(const ForwardParams& p, const typename Tiles::Queries& q, const float (&o)[N],
                                             const RunningRow (&rows)[2], const float (&total)[2], const QueryTile& tile, int row0,
                                             int lane) {
  float zero = 0;
#pragma unroll
  for (int n = 0; n < N; ++n) zero = fmaf(o[n], 0.0f, zero);
  if (zero != 0) report_not_finite(p, tile.b, tile.h / p.group);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane_row(lane) + half * 8, t = tile.m0 + row;
    if constexpr (Tiles::kQueriesInRegisters)
      store_row(p.o, o, half, 1.0f / total[half], tile.b, tile.h, t, p.T, p.D, lane);
    else
      put_row(q, row, o, half, 1.0f / total[half], lane);
    if (p.lse && lane % 4 == 0 && t < p.T)
      p.lse[(int64_t(tile.b) * p.H + tile.h) * p.T + t] = rows[half].largest * p.scale + logf(total[half]);
  }
  if constexpr (!Tiles::kQueriesInRegisters) {
    __syncwarp();
    store_rows<16>(p.o, q, row0, tile.b, tile.h, tile.m0, p.T, p.D, lane);
  }
}

// Releases a tile of queries and its number. Every thread arrives, because compute-sanitizer's racecheck does not follow one lane's
// arrival.
template <class Tiles>
__device__ __forceinline__ void release_queries(PersistentMemory<Tiles>& memory) {
  barrier_arrive(memory.queries.empty());
  memory.queries.next();
}

// One warpgroup's 64 queries against all their tiles of keys.
template <class Tiles>
__device__ __forceinline__ void attend_tile(const ForwardParams& p, PersistentMemory<Tiles>& memory, const QueryTile& tile, int group) {
  constexpr int kN = Tiles::kN, kD = Tiles::kD;
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));  // volatile: read again for each tile, so that no address stays in a register
  const int lane = thread % 32, row0 = group * 64 + thread / 32 % 4 * 16, first = tile.m0 + group * 64;
  const auto q = memory.queries.tile();
  auto &keys = memory.keys, &values = memory.values;
  const float to_log2 = p.scale * kLog2e;
  float o[kD / 2] = {}, s[kN / 2] = {};
  FragmentA weights[kN / 16];
  RunningRow rows[2];
  FragmentA own_queries[Tiles::kQueriesInRegisters ? kD / 16 : 1];
  if constexpr (Tiles::kQueriesInRegisters) {
#pragma unroll
    for (int d = 0; d < kD; d += 16) load_matrices(own_queries[d / 16].r, q.address(row0 + lane % 16, d + lane / 16 * 8));
    pin(own_queries);
    release_queries(memory);
  }
  // Scores of as many keys as `to` has columns, from the first of the tile on.
  const auto begin_scores = [&](auto& to) {
    pin(to);
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (Tiles::kQueriesInRegisters)
        multiply(to, own_queries[d / 16], keys.tile().by_rows(0, d), d > 0);
      else
        multiply(to, q.by_rows(group * 64, d), keys.tile().by_rows(0, d), d > 0);
    wgmma_commit();
  };
  const auto begin_output = [&] {
    pin(weights);
    pin(o);
    wgmma_begin();
#pragma unroll
    for (int key = 0; key < kN; key += 16) multiply_add(o, weights[key / 16], values.tile().by_columns(key));
    wgmma_commit();
  };
  const auto diagonal = [&](auto& to, int n0) {
    begin_scores(to);
    wgmma_wait<0>();
    pin(to);
    keys.release();
    mask_above_diagonal(to, tile.m0 + row0 + lane_row(lane), n0 + lane_column(lane));
    scores_to_weights(to, rows, to_log2);
  };

  // Tiles of keys after this warpgroup's last query, or all if it has none.
  int j = tile.last;
  for (const int own = first < p.T ? (first + 63) / kN : -1; j > own; --j) {
    keys.wait_full();
    keys.release();
    values.wait_full();
    values.release();
    if (j == 0) return;
    await_turn(group);
    pass_turn<Tiles>(group);
  }
  keys.wait_full();
  if (Tiles::kHalfTiles && first + 63 < j * kN + 64) {
    auto& half = reinterpret_cast<float(&)[kN / 4]>(s);
    diagonal(half, j * kN);
#pragma unroll
    for (int n = kN / 4; n < kN / 2; ++n) s[n] = 0;
  } else {
    diagonal(s, j * kN);
  }
  round_to_operands(weights, s);
#pragma unroll 1
  for (; j > 0; --j) {
    keys.wait_full();
    await_turn(group);
    begin_scores(s);
    values.wait_full();
    begin_output();
    pass_turn<Tiles>(group);
    wgmma_wait<1>();
    pin(s);
    keys.release();
    scores_to_weights(s, rows, to_log2);
    stay_before(rows[0].sum + rows[1].sum, q.base);
    wgmma_wait<0>();
    pin(o);
    values.release();
#pragma unroll
    for (int n = 0; n < kD / 2; ++n) o[n] *= rows[sum_half(n)].shrink;
    round_to_operands(weights, s);
  }
  values.wait_full();
  begin_output();
  const float total[] = {quad_sum(rows[0].sum), quad_sum(rows[1].sum)};
  wgmma_wait<0>();
  pin(o);
  values.release();
  if constexpr (!Tiles::kQueriesInRegisters) warpgroup_barrier(group);  // all warps have read their queries
  store_output<Tiles>(p, q, o, rows, total, tile, row0, lane);
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_forward, without options.
// Order:    a row's as causal_forward's: tiles of kForwardKeys keys from the diagonal to the first. Persistent blocks take tiles of kM
//           queries from a counter.
// Requires: sm_90a; maps of q (boxes of kM rows), k and v (kN) with D <= kD; aligned o; no start, kPersistentThreads threads.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <int kD>
__global__ void __launch_bounds__(kPersistentThreads<kD>, 1)
    causal_forward_persistent(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                              const __grid_constant__ CUtensorMap v_map, const QueryTiles all, const ForwardParams p) {
#if WEFT_HAS_WGMMA
  using Tiles = PersistentTiles<kD>;
  constexpr int kStages = Tiles::kStages, kQueryStages = Tiles::kQueryStages;
  extern __shared__ unsigned char bytes[];
  __shared__ __align__(16) uint64_t barriers[2 * (kQueryStages + 2 * kStages)];  // full, empty by stage: queries, keys, values
  __shared__ int number[kQueryStages];
  const uint32_t tiles = (shared_address(bytes) + 1023) & ~1023u, at = shared_address(barriers);
  PersistentMemory<Tiles> memory{{tiles, {at}}, {tiles + kQueryStages * Tiles::Queries::kBytes, {at + 16 * kQueryStages}}, {}, number};
  memory.values = {memory.keys.tiles + memory.keys.kBytes, {at + 16 * (kQueryStages + kStages)}};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kQueryStages + 2 * kStages; ++i) {
      barrier_init(TileBarriers{at}.full_at(i), 1);                                                      // the loading thread
      barrier_init(TileBarriers{at}.empty_at(i), (i < kQueryStages ? 128 : 4) * Tiles::kComputeGroups);  // every thread, or every warp
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();  // the barriers are initialized
  const int group = int(threadIdx.x) / 128 - 1;
  if (group < 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    if (threadIdx.x == 0) load_work<Tiles>(p, all, q_map, k_map, v_map, memory);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    if (group == Tiles::kComputeGroups - 1) pass_turn<Tiles>(group);  // the first warpgroup begins
    while (true) {
      memory.queries.wait_full();
      const int tile = number[memory.queries.stage];
      if (tile < 0) break;
      attend_tile<Tiles>(p, memory, QueryTile::of<Tiles>(all, p, tile), group);
      if constexpr (!Tiles::kQueriesInRegisters) {
        fence_for_wgmma();  // o was written to the memory into which the next queries are loaded
        release_queries(memory);
      }
    }
    if (group == 0) await_turn(0);  // a block ends with no barrier in use
  }
#endif
}

}  // namespace weft::cuda
