// The forward pass in bf16 on Hopper's tensor cores (Shah et al., 2024): one warpgroup loads tiles of keys and values, two others
// have 64 queries each. The scores of the next tile and the matmul with the values of this one run asynchronously while a warpgroup
// takes exponentials.
#pragma once

#include "weft/ops/causal_attention/cuda/forward_bf16.cuh"
#include "weft/tile/cuda/tma.cuh"

namespace weft::cuda {

// kStages: stages of keys and values in shared memory. D = 64: q and three stages take 112 KiB; D = 128: q and two stages 160 KiB of the
// 227 KiB of a block. No measurement of other numbers is recorded.
template <int kD>
struct HopperTiles {
  static constexpr int kComputeGroups = 2;  // warpgroups that compute, 64 rows of queries each: one wgmma is 64 rows high
  static constexpr int kM = 64 * kComputeGroups, kN = kForwardKeys<kD>, kStages = kD == 64 ? 3 : 2, kThreads = 128 * (1 + kComputeGroups);
  // An SM has 64 Ki registers: 384 threads start with 168 each (a multiple of 8; 504 for three threads, one of each warpgroup). The
  // warpgroup that loads gives up 128 of its 168, the others take 64 more each: 40 + 2 x 232 = 504.
  static constexpr int kLoadRegisters = 40, kComputeRegisters = 232;
  static_assert(kLoadRegisters + kComputeGroups * kComputeRegisters == 3 * 168);
  static constexpr int kLoadThreads = 64;  // two warps for keys, two for values
  using Q = SwizzledTile<kM, kD>;
  using K = SwizzledTile<kN, kD>;
  static constexpr int kBytes = Q::kBytes + 2 * kStages * K::kBytes + 1024;  // 1024: to align the tiles
};

// Compiled for sm_90a the kernel takes kThreads threads; for other architectures it takes one and does nothing, which launchers detect.
#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
template <int kD>
inline constexpr int kHopperThreads = HopperTiles<kD>::kThreads;
#else
template <int kD>
inline constexpr int kHopperThreads = 1;
#endif

#if WEFT_HAS_WGMMA

// Two warps load the tiles of keys, or those of values, from the diagonal, in tile `last`, to tile `stop`. inspect(tile, n0) is
// called with each tile once it has arrived.
template <int kD, class Inspect>
__device__ __forceinline__ void load_tiles(uint32_t tiles, TileBarriers barriers, const __nv_bfloat16* rows, int64_t stride, int last,
                                           int stop, int keys, int D, Inspect&& inspect) {
  using Tiles = HopperTiles<kD>;
  const int thread = int(threadIdx.x) % Tiles::kLoadThreads;
  for (int step = 0; step <= last - stop; ++step) {
    const int stage = step % Tiles::kStages, n0 = (last - step) * Tiles::kN;
    barrier_wait(barriers.empty_at(stage), uint32_t(step / Tiles::kStages + 1) & 1);
    const typename Tiles::K tile{tiles + uint32_t(stage) * Tiles::K::kBytes};
    tile.template load<Tiles::kLoadThreads>(rows + n0 * stride, stride, keys - n0, D, thread);
    copies_end();
    copies_wait<0>();
    fence_for_wgmma();
    barrier_arrive(barriers.full_at(stage));
    inspect(tile, n0);
  }
}

// Synchronizes the 128 threads of one of the warpgroups that compute. Barrier 0 is __syncthreads().
__device__ __forceinline__ void warpgroup_barrier(int group) { asm volatile("bar.sync %0, 128;\n" ::"r"(group + 1) : "memory"); }

// The scores of a tile of keys become weights. s: as wgmma lays it out; two rows a thread.
template <int N>
__device__ __forceinline__ void scores_to_weights(float (&s)[N], RunningRow (&rows)[2], float to_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) rows[half].update<N / 4>(to_log2, [&](int g, int i) -> float& { return s[4 * g + 2 * half + i]; });
}

// One warpgroup's 64 queries against all their tiles of keys.
template <int kD, bool kOptions>
__device__ __forceinline__ void attend_queries(const ForwardParams& p, const typename HopperTiles<kD>::Q& q, uint32_t keys_at,
                                               uint32_t values_at, TileBarriers kb, TileBarriers vb, int group, const SequenceTile& at,
                                               int before, int last, int stop) {
  using Tiles = HopperTiles<kD>;
  constexpr int kN = Tiles::kN;
  const int h = int(blockIdx.y), b = at.b, m0 = at.tile * Tiles::kM, steps = last - stop;
  const int thread = int(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32, row0 = group * 64 + warp * 16;
  const float score_scale = p.rule.template score_scale<kOptions>(p.scale), to_log2 = score_scale * kLog2e;
  const auto key_tile = [&](int step) { return typename Tiles::K{keys_at + uint32_t(step % Tiles::kStages) * Tiles::K::kBytes}; };
  const auto value_tile = [&](int step) { return typename Tiles::K{values_at + uint32_t(step % Tiles::kStages) * Tiles::K::kBytes}; };
  const auto ready = [&](TileBarriers at, int step) {
    barrier_wait(at.full_at(step % Tiles::kStages), uint32_t(step / Tiles::kStages) & 1);
  };
  const auto release = [&](TileBarriers at, int step) {
    __syncwarp();
    if (lane == 0) barrier_arrive(at.empty_at(step % Tiles::kStages));
  };

  float o[kD / 2] = {}, s[kN / 2] = {};
  FragmentA weights[kN / 16];
  RunningRow rows[2];
  const auto scores = [&](int step) {
    ready(kb, step);
    const auto k = key_tile(step);
    pin(s);
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16) multiply(s, q.by_rows(group * 64, d), k.by_rows(0, d), d > 0);
    wgmma_commit();
  };
  const auto weigh_values = [&](int step) {
    const auto v = value_tile(step);
    pin(weights);
    pin(o);
    wgmma_begin();
#pragma unroll
    for (int key = 0; key < kN; key += 16) multiply_add(o, weights[key / 16], v.by_columns(key));
    wgmma_commit();
  };
  const auto softmax = [&](int step) {
    const int n0 = (last - step) * kN, first = before + m0 + row0;
    if (p.rule.template capped<kOptions>())
#pragma unroll
      for (int n = 0; n < kN / 2; ++n) s[n] = p.rule.cap(s[n]);
    if (n0 + kN - 1 > first) mask_above_diagonal(s, first + lane_row(lane), n0 + lane_column(lane));  // also past the last key
    if (p.rule.template window_cuts<kOptions>(first + 15, n0))
      mask_below_diagonal(s, first - p.rule.window + lane_row(lane), n0 + lane_column(lane));
    scores_to_weights(s, rows, to_log2);
  };
  const auto shrink_and_round = [&] {
    if (__any_sync(0xffffffffu, rows[0].shrink != 1.0f || rows[1].shrink != 1.0f))  // the maximum seldom moves after the first tiles
#pragma unroll
      for (int n = 0; n < kD / 2; ++n) o[n] *= rows[sum_half(n)].shrink;
    round_to_operands(weights, s);
  };

  scores(0);
  wgmma_wait<0>();
  pin(s);
  release(kb, 0);
  softmax(0);
  shrink_and_round();
  for (int step = 1; step <= steps; ++step) {
    scores(step);
    ready(vb, step - 1);
    weigh_values(step - 1);
    wgmma_wait<1>();
    pin(s);
    release(kb, step);
    softmax(step);
    wgmma_wait<0>();
    pin(o);
    release(vb, step - 1);
    shrink_and_round();
  }
  ready(vb, steps);
  weigh_values(steps);
  wgmma_wait<0>();
  pin(o);

  // Through the queries' memory, so that rows are written sixteen bytes at a time. A warp reads and writes its own rows.
  warpgroup_barrier(group);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = quad_sum(rows[half].sum);
    const int row = row0 + lane_row(lane) + half * 8;
    put_row(q, row, o, half, 1.0f / total, lane);
    if (p.lse && lane % 4 == 0 && m0 + row < at.length)
      p.lse[(int64_t(b) * p.H + h) * p.T + at.first + m0 + row] = rows[half].largest * score_scale + logf(total);
  }
  __syncwarp();
  store_rows<16>(at.from_first(p.o), q, row0, b, h, m0, at.length, p.D, lane);
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_forward.
// Order:    a block per (tile of 128 queries, head, sequence); tiles of kForwardKeys keys from the diagonal to the first, sums in f32 in
//           registers; p is rounded to bf16 for its matmul with v. Maximum and sum of a row over four lanes by butterfly.
// Requires: sm_90a; aligned rows, D <= kD, kThreads threads. A start out of range: nothing is written.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <int kD, bool kOptions>
__global__ void __launch_bounds__(kHopperThreads<kD>, 1) causal_forward_hopper(const ForwardParams p) {
#if WEFT_HAS_WGMMA
  using Tiles = HopperTiles<kD>;
  extern __shared__ unsigned char memory[];
  __shared__ __align__(16) uint64_t barriers[4 * Tiles::kStages];  // full, empty by stage: keys, then values
  const typename Tiles::Q q{(shared_address(memory) + 1023) & ~1023u};
  const uint32_t keys_at = q.base + q.kBytes, values_at = keys_at + Tiles::kStages * Tiles::K::kBytes;
  const TileBarriers kb{shared_address(barriers)}, vb{kb.at + 16 * Tiles::kStages};
  const SequenceTile at =
      tile_of_slot<kOptions, Tiles::kM>(p.rule, int(gridDim.x - 1 - blockIdx.x), int(blockIdx.z), p.T);  // the longest first
  const int h = int(blockIdx.y), b = at.b, hkv = h / p.group, m0 = at.tile * Tiles::kM;
  if (kOptions && m0 >= at.length) return;
  const int before = p.start ? p.start[b] : 0, keys = before + at.length;
  if (before < 0 || before > p.most - at.length) return;
  const int last = min(before + m0 + Tiles::kM - 1, keys - 1) / Tiles::kN;
  const int stop = p.rule.template first_key_tile<kOptions, Tiles::kN>(m0);

  const int group = int(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < 2 * Tiles::kStages; ++stage) {
      barrier_init(kb.full_at(stage), Tiles::kLoadThreads);         // every thread that loads
      barrier_init(kb.empty_at(stage), 4 * Tiles::kComputeGroups);  // every warp that computes
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();  // the barriers are initialized
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    const auto inspect = [&](const typename Tiles::K& values, int n0) {
      if ((n0 + Tiles::kN - 1 > before + m0 || p.rule.template window_cuts<kOptions>(min(m0 + Tiles::kM, at.length) - 1, n0)) &&
          values.template loaded_not_finite<Tiles::kLoadThreads>(int(threadIdx.x) % Tiles::kLoadThreads))
        report_not_finite(p, at.number, hkv);
    };
    if (threadIdx.x < Tiles::kLoadThreads)
      load_tiles<kD>(keys_at, kb, p.k.row(b, at.first, hkv), p.k.time, last, stop, keys, p.D, [](const auto&, int) {});
    else
      load_tiles<kD>(values_at, vb, p.v.row(b, at.first, hkv), p.v.time, last, stop, keys, p.D, inspect);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    const int first = (group - 1) * 64;
    q.template load<128, 64>(p.q.row(b, at.first + m0 + first, h), p.q.time, at.length - m0 - first, p.D, int(threadIdx.x) % 128, first);
    copies_end();
    copies_wait<0>();
    fence_for_wgmma();
    warpgroup_barrier(group - 1);
    attend_queries<kD, kOptions>(p, q, keys_at, values_at, kb, vb, group - 1, at, before, last, stop);
  }
#endif
}

}  // namespace weft::cuda
