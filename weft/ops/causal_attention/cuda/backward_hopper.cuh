// The backward pass in bf16 on Hopper's tensor cores: a block keeps a tile of 128 keys and iterates over the tiles of queries as
// causal_backward does, with specialized warps. Two load queries, two add to dq by turns, and two warpgroups have 64 keys each.
// Scores are computed transposed, [keys, queries], so that P and dS lie in registers as the matmuls for dV and dK take them; dS alone
// goes through shared memory, for dQ. The matmul for dQ of step i runs in step i + 1, when the other warpgroup has written its half
// of dS, and a dedicated warp writes the sum to memory asynchronously.
#pragma once

#include <type_traits>

#include "weft/ops/causal_attention/cuda/backward_bf16.cuh"
#include "weft/ops/causal_attention/cuda/forward_hopper.cuh"

namespace weft::cuda {

// kStages: stages of queries and do. For D = 128 (32 KiB each beside 128 KiB of keys, values, dS and sums of dQ) two fill the 227 KiB
// of a block; for D = 64 four stages are as much memory as two are there.
template <int kD_>
struct HopperBackwardTiles {
  static constexpr int kComputeGroups = 2;  // warpgroups that compute, 64 rows of keys each: one wgmma is 64 rows high
  static constexpr int kD = kD_, kM = 64, kN = 64 * kComputeGroups, kThreads = 128 * (1 + kComputeGroups), kStages = kD == 64 ? 4 : 2;
  // As HopperTiles: three warpgroups share 3 x 168 registers. D = 64 leaves more to the warps that load and add, since its computing
  // warps need fewer for dK and dV. Measured on an H200: 24 for those warps at D = 128 gave 222 TFLOP/s instead of 361 (docs/lab/cuda.md).
  static constexpr int kComputeRegisters = kD == 64 ? 216 : 232, kLoadRegisters = kD == 64 ? 72 : 40;
  static_assert(kLoadRegisters + kComputeGroups * kComputeRegisters == 3 * 168);
  static_assert(kStages % 2 == 0);  // two warps load in turns: a stage always belongs to the same one
};

// The layout of shared memory. A tile of dQ is one or two squares of 64x64 sums.
template <class Tiles>
struct HopperBackwardMemory {
  using Keys = SwizzledTile<Tiles::kN, Tiles::kD>;
  using Queries = SwizzledTile<Tiles::kM, Tiles::kD>;
  using DScores = SwizzledTile<Tiles::kN, Tiles::kM>;
  static constexpr int kSquares = Tiles::kD / 64, kSquare = 64 * 64 * 4, kSums = kSquares * kSquare, kRows = 2 * Tiles::kM * 4;
  static constexpr int kBytes =
      2 * Keys::kBytes + Tiles::kStages * (2 * Queries::kBytes + kRows) + 2 * (DScores::kBytes + kSums) + 1024;  // 1024: to align the tiles
  uint32_t base;

  __device__ __forceinline__ Keys keys() const { return {base}; }
  __device__ __forceinline__ Keys values() const { return {base + Keys::kBytes}; }
  __device__ __forceinline__ Queries queries(int stage) const { return {base + 2 * Keys::kBytes + uint32_t(stage) * 2 * Queries::kBytes}; }
  __device__ __forceinline__ Queries douts(int stage) const { return {queries(stage).base + Queries::kBytes}; }
  __device__ __forceinline__ DScores dscores(int buffer) const {
    return {queries(Tiles::kStages).base + uint32_t(buffer) * DScores::kBytes};
  }
  __device__ __forceinline__ uint32_t sums(int buffer) const { return dscores(2).base + uint32_t(buffer) * kSums; }
  __device__ __forceinline__ uint32_t rows(int stage) const { return sums(2) + uint32_t(stage) * kRows; }  // lse in log2, then delta
  // Offset of four columns of a row in a square: swizzled by row, so that four rows are in different banks.
  __device__ __forceinline__ static uint32_t in_square(int row, int column) {
    return uint32_t(row * 256 + (column / 4 ^ row % 4 * 2) * 16 + column % 4 * 4);
  }
};

// Compiled for sm_90a the kernel takes kThreads threads, elsewhere one (see kHopperThreads).
#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
template <class Tiles>
inline constexpr int kHopperBackwardThreads = Tiles::kThreads;
#else
template <class Tiles>
inline constexpr int kHopperBackwardThreads = 1;
#endif

#if WEFT_HAS_WGMMA

struct HopperBackwardBarriers {
  TileBarriers queries, dscores, sums;
};
__device__ __forceinline__ void wait_full(TileBarriers at, int buffers, int use) {
  barrier_wait(at.full_at(use % buffers), uint32_t(use / buffers) & 1);
}
__device__ __forceinline__ void wait_empty(TileBarriers at, int buffers, int use) {
  barrier_wait(at.empty_at(use % buffers), uint32_t(use / buffers + 1) & 1);
}
// Arrives once for a warp, after all its lanes: for memory that only wgmma reads. For other memory every lane arrives, which
// compute-sanitizer's racecheck understands.
__device__ __forceinline__ void warp_arrive(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

// A warp loads the queries, do, lse and delta of every second step.
template <class Tiles, bool kOptions>
__device__ __forceinline__ void load_queries(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                             const HopperBackwardBarriers& barriers, const BackwardWork<Tiles, kOptions>& work, int warp) {
  const int lane = int(threadIdx.x) % 32;
  for (int step = warp; step < work.steps; step += 2) {
    const int stage = step % Tiles::kStages, h = work.head(step), m0 = work.query_tile(step) * Tiles::kM;
    const int64_t row0 = (int64_t(work.at.b) * p.H + h) * p.T + work.at.first + m0;
    const auto q = memory.queries(stage), dout = memory.douts(stage);
    float lse[Tiles::kM / 32], delta[Tiles::kM / 32];
#pragma unroll
    for (int i = 0; i < Tiles::kM / 32; ++i) {
      const int row = i * 32 + lane;
      const bool inside = m0 + row < work.at.length;
      lse[i] = inside ? p.lse[row0 + row] * kLog2e : __builtin_huge_valf();
      delta[i] = inside ? p.delta[row0 + row] : 0.0f;
    }
    wait_empty(barriers.queries, Tiles::kStages, step);
    q.load_by_warp(p.q.row(work.at.b, work.at.first + m0, h), p.q.time, work.at.length - m0, p.D, lane);
    dout.load_by_warp(p.dout.row(work.at.b, work.at.first + m0, h), p.dout.time, work.at.length - m0, p.D, lane);
    copies_end();
#pragma unroll
    for (int i = 0; i < Tiles::kM / 32; ++i)
      asm volatile("st.shared.f32 [%0], %1;\nst.shared.f32 [%0 + %3], %2;\n" ::"r"(memory.rows(stage) + uint32_t(i * 32 + lane) * 4),
                   "f"(lse[i]), "f"(delta[i]), "n"(Tiles::kM * 4)
                   : "memory");
    copies_wait<0>();
    fence_for_wgmma();
    barrier_arrive(barriers.queries.full_at(stage));
    if ((work.n0 + Tiles::kN - 1 > m0 || work.window_cuts(p, min(m0 + Tiles::kM, work.at.length) - 1, work.n0)) &&
        (q.template loaded_not_finite<32>(lane) || dout.template loaded_not_finite<32>(lane)))
      work.report_not_finite(p);
  }
}

// A warp writes a tile of dQ in bf16: the last addend, from shared memory, plus the previous sums if there are `some`.
template <class Tiles>
__device__ __forceinline__ void store_dq(const BackwardParams& p, uint32_t part, const float* sums, bool some, const SequenceTile& at,
                                         int m0, int h) {
  using Memory = HopperBackwardMemory<Tiles>;
  const int lane = int(threadIdx.x) % 32, column = lane % 8 * 8;
#pragma unroll 4
  for (int i = 0; i < Memory::kSquares * 16; ++i) {
    const int square = i / 16, row = i % 16 * 4 + lane / 8, d = square * 64 + column;
    const uint32_t offset = uint32_t(square * Memory::kSquare) + Memory::in_square(row, column);
    float4 x[2], more[2] = {};
    if (some)
      more[0] = __ldcg(reinterpret_cast<const float4*>(sums + offset / 4)),
      more[1] = __ldcg(reinterpret_cast<const float4*>(sums + offset / 4) + 1);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];\n"
                   : "=f"(x[k].x), "=f"(x[k].y), "=f"(x[k].z), "=f"(x[k].w)
                   : "r"(part + offset + uint32_t(k) * 16));
    const auto two = [&](float low, float low_more, float high, float high_more) {
      return pack((low + low_more) * p.scale, (high + high_more) * p.scale);
    };
    const uint4 out{two(x[0].x, more[0].x, x[0].y, more[0].y), two(x[0].z, more[0].z, x[0].w, more[0].w),
                    two(x[1].x, more[1].x, x[1].y, more[1].y), two(x[1].z, more[1].z, x[1].w, more[1].w)};
    if (m0 + row < at.length && d < p.D) *reinterpret_cast<uint4*>(p.dq.row(at.b, at.first + m0 + row, h) + d) = out;
  }
}

// One thread copies or adds a tile of dQ from shared memory to its sums, asynchronously; the tile has been read when this returns.
template <class Tiles>
__device__ __forceinline__ void begin_adding(uint32_t part, float* sums, bool first) {
  constexpr int kSums = HopperBackwardMemory<Tiles>::kSums;
  asm volatile("fence.proxy.async;\n" ::: "memory");
  if (first)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(sums), "r"(part), "r"(kSums) : "memory");
  else
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(sums), "r"(part), "r"(kSums)
                 : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
}

// A warp adds the dQ of every second step to memory in this block's turn: the first addend is copied, the others are added in L2, the
// last is written in bf16.
template <class Tiles, bool kOptions>
__device__ __forceinline__ void add_dq(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                       const HopperBackwardBarriers& barriers, const BackwardWork<Tiles, kOptions>& work, int warp) {
  constexpr int kSums = HopperBackwardMemory<Tiles>::kSums;
  const uint32_t part = memory.sums(warp), empty = barriers.sums.empty_at(warp);
  for (int step = warp; step < work.steps; step += 2) {
    const int i = work.query_tile(step), h = work.head(step), m0 = i * Tiles::kM;
    const int64_t tile = work.turn(p, h, i);
    const int last = work.last_key_tile(p, m0), end = work.first_key_tile(p, m0);  // the first and the last to add to this tile of dQ
    float* sums = p.sums + work.sum_tile(p, h, i) * (kSums / 4);
    if (threadIdx.x % 32 == 0)
      while (load_acquire(p.turns + tile) != unsigned(last - work.j)) __nanosleep(20);
    __syncwarp();
    wait_full(barriers.sums, 2, step);
    if (work.j == end) {
      store_dq<Tiles>(p, part, sums, last > end, work.at, m0, h);
    } else if (threadIdx.x % 32 == 0) {
      begin_adding<Tiles>(part, sums, work.j == last);
    }
    __syncwarp();
    barrier_arrive(empty);
    if (work.j > end && threadIdx.x % 32 == 0) {
      asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;\n" ::: "memory");
      store_release(p.turns + tile, unsigned(last - work.j) + 1);
    }
  }
}

// Writes a warp's 16 rows of dK or dV in bf16 through its own rows of `tile`, sixteen bytes at a time.
template <class Tiles, bool kOptions, class Tile, int kSums>
__device__ __forceinline__ void store_keys(const Tile& tile, const float (&x)[kSums], float scale, const Heads<__nv_bfloat16>& to,
                                           const BackwardParams& p, const BackwardWork<Tiles, kOptions>& work, int row0) {
  const int lane = int(threadIdx.x) % 32;
  put_rows(tile, row0, x, scale, lane);
  __syncwarp();
  store_rows<16>(work.at.from_first(to), tile, row0, work.at.b, work.hkv, work.n0, work.at.length, p.D, lane);
  __syncwarp();
}

// lse (or delta) of the two queries in a lane's columns of fragment n.
__device__ __forceinline__ float2 row_pair(uint32_t rows, int n) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n" : "=f"(x.x), "=f"(x.y) : "r"(rows + uint32_t(n * 8 + int(threadIdx.x) % 4 * 2) * 4));
  return x;
}
// Scores become P^T = exp(scale s - lse). key, query: those of this lane's first element.
__device__ __forceinline__ void scores_to_weights(float (&s)[32], uint32_t lse, float to_log2, bool diagonal, int key, int query) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 row = row_pair(lse, n);
#pragma unroll
    for (int x = 0; x < 4; ++x) s[n * 4 + x] = exp2_approx(fmaf(s[n * 4 + x], to_log2, x % 2 ? -row.y : -row.x));
  }
  if (diagonal) zero_below_diagonal(s, key, query);
}
// dP^T becomes dS^T = P^T (dP^T - delta).
__device__ __forceinline__ void dp_to_dscores(float (&dp)[32], const float (&weights)[32], uint32_t delta, bool diagonal, int key,
                                              int query) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 row = row_pair(delta, n);
#pragma unroll
    for (int x = 0; x < 4; ++x) dp[n * 4 + x] = weights[n * 4 + x] * (dp[n * 4 + x] - (x % 2 ? row.y : row.x));
  }
  if (diagonal) zero_below_diagonal(dp, key, query);
}

// Both with a soft cap: ratio = tanh(scale q . k / cap), P^T = exp(cap ratio - lse), dS^T = P^T (dP^T - delta) (1 - ratio^2).
__device__ __forceinline__ void capped_to_dscores(float (&s)[32], float (&dp)[32], uint32_t lse, uint32_t delta,
                                                  const AttentionRule& rule) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 row = row_pair(lse, n), row_delta = row_pair(delta, n);
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float ratio = rule.capped_ratio(s[n * 4 + x]);
      s[n * 4 + x] = exp2_approx(fmaf(rule.soft_cap * ratio, kLog2e, x % 2 ? -row.y : -row.x));
      dp[n * 4 + x] = s[n * 4 + x] * (dp[n * 4 + x] - (x % 2 ? row_delta.y : row_delta.x)) * fmaf(-ratio, ratio, 1.0f);
    }
  }
}

// One warpgroup's 64 keys against all their tiles of queries. With two squares of dQ each warpgroup computes its own; with one, they
// take every second step's.
template <class Tiles, bool kOptions>
__device__ __forceinline__ void differentiate_keys(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                                   const HopperBackwardBarriers& barriers, const BackwardWork<Tiles, kOptions>& work,
                                                   int group) {
  using Memory = HopperBackwardMemory<Tiles>;
  constexpr int kM = Tiles::kM, kD = Tiles::kD, kSquares = Memory::kSquares;
  constexpr bool kKeysInRegisters = kD == 64;
  const int lane = int(threadIdx.x) % 32, row0 = group * 64 + int(threadIdx.x) / 32 % 4 * 16;
  const auto keys = memory.keys(), values = memory.values();
  float dk[kD / 2] = {}, dv[kD / 2] = {}, dq[32];
  pin(dk);
  pin(dv);
  FragmentA k[kKeysInRegisters ? kD / 16 : 1], v[kKeysInRegisters ? kD / 16 : 1];
  if constexpr (kKeysInRegisters)
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      load_matrices(k[d / 16].r, keys.address(row0 + lane % 16, d + lane / 16 * 8));
      load_matrices(v[d / 16].r, values.address(row0 + lane % 16, d + lane / 16 * 8));
    }
  const auto begin_dq = [&](int step) {
    wait_full(barriers.dscores, 2, step);
    wgmma_begin();
#pragma unroll
    for (int key = 0; key < Tiles::kN; key += 16)
      multiply_by_columns(dq, memory.dscores(step % 2).by_columns(key), keys.by_columns(key, kSquares == 2 ? group * 64 : 0), key > 0);
    wgmma_commit();
  };
  const auto put_dq = [&](int step) {
    pin(dq);
    warp_arrive(barriers.dscores.empty_at(step % 2));
    wait_empty(barriers.sums, 2, step);
    const uint32_t to = memory.sums(step % 2) + uint32_t(kSquares == 2 ? group * Memory::kSquare : 0);
#pragma unroll
    for (int n = 0; n < 16; ++n)
      asm volatile("st.shared.v2.f32 [%0], {%1,%2};\n" ::"r"(
                       to + Memory::in_square(row0 % 64 + lane_row(lane) + sum_row(2 * n), sum_column(2 * n) + lane_column(lane))),
                   "f"(dq[n * 2]), "f"(dq[n * 2 + 1])
                   : "memory");
    fence_for_wgmma();
    barrier_arrive(barriers.sums.full_at(step % 2));
  };

  const auto run_step = [&](int step, auto with_dq) {
    const int stage = step % Tiles::kStages, m0 = work.query_tile(step) * kM, key = work.n0 + row0 + lane_row(lane);
    const bool diagonal = work.n0 + group * 64 + 63 > m0;
    const auto q = memory.queries(stage), dout = memory.douts(stage);
    float s[32], dp[32];
    FragmentA weights[4], dscores[4];  // p and ds, transposed
    wait_full(barriers.queries, Tiles::kStages, step);
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (kKeysInRegisters)
        multiply(s, k[d / 16], q.by_rows(0, d), d > 0);
      else
        multiply(s, keys.by_rows(group * 64, d), q.by_rows(0, d), d > 0);
    wgmma_commit();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (kKeysInRegisters)
        multiply(dp, v[d / 16], dout.by_rows(0, d), d > 0);
      else
        multiply(dp, values.by_rows(group * 64, d), dout.by_rows(0, d), d > 0);
    wgmma_commit();
    wgmma_wait<1>();
    pin(s);
    const bool capped = p.rule.template capped<kOptions>();
    if (!capped) scores_to_weights(s, memory.rows(stage), p.scale * kLog2e, diagonal, key, m0 + lane_column(lane));
    wgmma_wait<0>();
    pin(dp);
    if (!capped) dp_to_dscores(dp, s, memory.rows(stage) + kM * 4, diagonal, key, m0 + lane_column(lane));
    if constexpr (kOptions) {
      if (capped) {
        capped_to_dscores(s, dp, memory.rows(stage), memory.rows(stage) + kM * 4, p.rule);
        if (diagonal) {
          zero_below_diagonal(s, key, m0 + lane_column(lane));
          zero_below_diagonal(dp, key, m0 + lane_column(lane));
        }
      }
      if (work.window_cuts(p, m0 + kM - 1, work.n0 + group * 64)) {
        zero_above_diagonal(s, key, m0 - p.rule.window + lane_column(lane));
        zero_above_diagonal(dp, key, m0 - p.rule.window + lane_column(lane));
      }
    }
    round_to_operands(weights, s);
    round_to_operands(dscores, dp);
    pin(weights);
    pin(dscores);
    if constexpr (with_dq.value) begin_dq(step - 1);
    wgmma_begin();
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dv, weights[n / 16], dout.by_columns(n));
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dk, dscores[n / 16], q.by_columns(n));
    wgmma_commit();
    wait_empty(barriers.dscores, 2, step);
#pragma unroll
    for (int n = 0; n < kM; n += 16)
      store_matrices(memory.dscores(step % 2).address(row0 + lane % 16, n + lane / 16 * 8), dscores[n / 16].r);
    fence_for_wgmma();
    warp_arrive(barriers.dscores.full_at(step % 2));
    if constexpr (with_dq.value) {
      wgmma_wait<1>();
      put_dq(step - 1);
    }
    wgmma_wait<0>();
    pin(dk);
    pin(dv);
    barrier_arrive(barriers.queries.empty_at(stage));
  };
  // ptxas serializes wgmmas unless it knows statically which are in flight: whether a step has a matmul for dQ is a template argument.
  constexpr std::true_type kWith{};
  constexpr std::false_type kWithout{};
  run_step(0, kWithout);
  if constexpr (kSquares == 2) {
    for (int step = 1; step < work.steps; ++step) run_step(step, kWith);
  } else {
    if (group == 1 && work.steps > 1) run_step(1, kWithout);
    int step = 1 + group;
    for (; step + 1 < work.steps; step += 2) {
      run_step(step, kWith);
      run_step(step + 1, kWithout);
    }
    if (step < work.steps) run_step(step, kWith);
  }
  if (kSquares == 2 || (work.steps - 1) % 2 == group) {
    begin_dq(work.steps - 1);
    wgmma_wait<0>();
    put_dq(work.steps - 1);
  }
  warpgroup_barrier(group);  // all warps have read these values
  store_keys(values, dv, 1.0f, p.dv, p, work, row0);
  store_keys(values, dk, p.scale, p.dk, p, work, row0);
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_backward; dq's sums in squares of 64x64.
// Order:    as causal_backward: a block per (tile of 128 keys, key head, sequence), taken from a ticket; dq by turns.
// Requires: sm_90a; aligned rows, D <= kD, kThreads threads; turns and ticket zero.
// Traffic:  k, v once; q, do once per tile of keys (mostly from L2); dq's sums go to L2 once per tile of keys and are added there.
template <class Tiles, bool kOptions>
__global__ void __launch_bounds__(kHopperBackwardThreads<Tiles>, 1) causal_backward_hopper(const BackwardParams p) {
#if WEFT_HAS_WGMMA
  using Memory = HopperBackwardMemory<Tiles>;
  extern __shared__ unsigned char bytes[];
  __shared__ __align__(16) uint64_t words[2 * (Tiles::kStages + 2 + 2)];  // full and empty of each stage; two buffers of dS, two of sums
  __shared__ unsigned ticket;
  const Memory memory{(shared_address(bytes) + 1023) & ~1023u};
  const TileBarriers queries{shared_address(words)}, dscores{queries.at + 16 * Tiles::kStages}, sums{dscores.at + 32};
  const HopperBackwardBarriers barriers{queries, dscores, sums};
  if (threadIdx.x == 0) {
    ticket = atomicAdd(p.ticket, 1);
    for (int stage = 0; stage < Tiles::kStages; ++stage) {
      barrier_init(queries.full_at(stage), 32);                            // every lane of the warp that loads
      barrier_init(queries.empty_at(stage), 128 * Tiles::kComputeGroups);  // every thread that computes
    }
    for (int buffer = 0; buffer < 2; ++buffer) {
      barrier_init(dscores.full_at(buffer), 4 * Tiles::kComputeGroups);  // every warp that computes
      barrier_init(dscores.empty_at(buffer), 4 * Memory::kSquares);      // every warp whose matmul for dQ reads it
      barrier_init(sums.full_at(buffer), 128 * Memory::kSquares);        // every thread that writes dQ
      barrier_init(sums.empty_at(buffer), 32);                           // every lane of the warp that adds
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();  // the barriers are initialized
  const auto work = BackwardWork<Tiles, kOptions>::of(p, int(ticket));
  if (work.nothing()) return;
  const int warp = int(threadIdx.x) / 32;
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    if (warp < 2)
      load_queries<Tiles, kOptions>(p, memory, barriers, work, warp);
    else
      add_dq<Tiles, kOptions>(p, memory, barriers, work, warp - 2);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    const int group = warp / 4 - 1, thread = int(threadIdx.x) % 128, row = work.n0 + group * 64;
    memory.keys().template load<128, 64>(p.k.row(work.at.b, work.at.first + row, work.hkv), p.k.time, work.at.length - row, p.D, thread,
                                         group * 64);
    memory.values().template load<128, 64>(p.v.row(work.at.b, work.at.first + row, work.hkv), p.v.time, work.at.length - row, p.D, thread,
                                           group * 64);
    copies_end();
    copies_wait<0>();
    if (memory.keys().template loaded_not_finite<128, 64>(thread, group * 64)) work.report_not_finite(p);
    fence_for_wgmma();
    warpgroup_barrier(group);
    differentiate_keys<Tiles, kOptions>(p, memory, barriers, work, group);
  }
#endif
}

}  // namespace weft::cuda
