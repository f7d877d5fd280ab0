// The forward pass in bf16 on Hopper's tensor cores (Shah et al., 2024): one warpgroup fetches tiles of keys and values, two
// others have 64 queries each. The scores of the next tile and the products with the values of this one run while a
// warpgroup takes exponentials.
#pragma once

#include "weft/ops/causal_attention/cuda/forward_bf16.cuh"
#include "weft/tile/cuda/wgmma.cuh"

namespace weft::cuda {

template <int kD>
struct HopperTiles {
  static constexpr int kM = 128, kN = 128, kStages = kD == 64 ? 3 : 2, kThreads = 384;
  using Q = SwizzledTile<kM, kD>;
  using K = SwizzledTile<kN, kD>;
  static constexpr int kBytes = Q::kBytes + 2 * kStages * K::kBytes + 1024;  // 1024: to align the tiles
};

// Compiled for sm_90a the kernel takes kThreads threads, elsewhere one, and does nothing: so a launcher can tell.
#if WEFT_HAS_WGMMA || !defined(__CUDA_ARCH__)
template <int kD>
inline constexpr int kHopperThreads = HopperTiles<kD>::kThreads;
#else
template <int kD>
inline constexpr int kHopperThreads = 1;
#endif

#if WEFT_HAS_WGMMA

struct TileBarriers {  // two to a stage
  uint32_t at;
  __device__ __forceinline__ uint32_t full_at(int stage) const { return at + uint32_t(stage) * 16; }
  __device__ __forceinline__ uint32_t empty_at(int stage) const { return full_at(stage) + 8; }
};

// Two warps bring the tiles of keys, or those of values, from the diagonal to the first. look(tile, n0): at what a thread has
// brought.
template <int kD, class Look>
__device__ __forceinline__ void fetch_tiles(uint32_t tiles, TileBarriers barriers, const __nv_bfloat16* rows, int64_t stride, int last,
                                            int keys, int D, Look&& look) {
  using Tiles = HopperTiles<kD>;
  const int thread = int(threadIdx.x) % 64;
  for (int step = 0; step <= last; ++step) {
    const int stage = step % Tiles::kStages, n0 = (last - step) * Tiles::kN;
    barrier_wait(barriers.empty_at(stage), uint32_t(step / Tiles::kStages + 1) & 1);
    const typename Tiles::K tile{tiles + uint32_t(stage) * Tiles::K::kBytes};
    tile.template load<64>(rows + n0 * stride, stride, keys - n0, D, thread);
    copies_end();
    copies_wait<0>();
    publish_to_products();
    barrier_arrive(barriers.full_at(stage));
    look(tile, n0);
  }
}

// The 128 threads of one of the warpgroups that compute.
__device__ __forceinline__ void warpgroup_barrier(int group) { asm volatile("bar.sync %0, 128;\n" ::"r"(group + 1) : "memory"); }

// A row's running maximum and sum, and what its earlier parts shrink by.
struct RunningRow {
  float largest = Max::kNone, sum = 0, shrink = 1;
};

// Scores of one tile to exponentials. s: as wgmma gives it; two rows a thread.
__device__ __forceinline__ void take_exponentials(float (&s)[64], RunningRow (&rows)[2], float to_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    RunningRow& row = rows[half];
    float most = row.largest;
#pragma unroll
    for (int n = 0; n < 64; n += 4) most = fmaxf(most, fmaxf(s[n + 2 * half], s[n + 2 * half + 1]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const ScoreBase base(most, to_log2);
    row.shrink = base.weight(row.largest);
    row.largest = most;
    float more[2] = {};
#pragma unroll
    for (int n = 0; n < 64; n += 4)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = s[n + 2 * half + i];
        x = base.weight(x);
        more[i] += x;
      }
    row.sum = fmaf(row.sum, row.shrink, more[0] + more[1]);
  }
}

// One warpgroup's 64 queries against all their tiles of keys.
template <int kD>
__device__ __forceinline__ void attend_queries(const ForwardParams& p, const typename HopperTiles<kD>::Q& q, uint32_t keys_at,
                                               uint32_t values_at, TileBarriers kb, TileBarriers vb, int group, int m0, int before,
                                               int last) {
  using Tiles = HopperTiles<kD>;
  constexpr int kN = Tiles::kN;
  const int h = int(blockIdx.y), b = int(blockIdx.z);
  const int thread = int(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32, row0 = group * 64 + warp * 16;
  const float to_log2 = p.scale * kLog2e;
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
    products_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16) multiply(s, q.by_rows(group * 64, d), k.by_rows(0, d), d > 0);
    products_end();
  };
  const auto weigh_values = [&](int step) {
    const auto v = value_tile(step);
    pin(weights);
    pin(o);
    products_begin();
#pragma unroll
    for (int key = 0; key < kN; key += 16) multiply_add(o, weights[key / 16], v.by_columns(key));
    products_end();
  };
  const auto exponentials = [&](int step) {
    const int n0 = (last - step) * kN, first = before + m0 + row0;
    if (n0 + kN - 1 > first)  // the diagonal, and the end
#pragma unroll
      for (int n = 0; n < kN / 2; ++n)
        if (n0 + n / 4 * 8 + lane % 4 * 2 + n % 2 > first + lane / 4 + n / 2 % 2 * 8) s[n] = Max::kNone;
    take_exponentials(s, rows, to_log2);
  };
  const auto shrink_and_round = [&] {
    if (__any_sync(0xffffffffu, rows[0].shrink != 1.0f || rows[1].shrink != 1.0f))  // the maximum seldom moves after the first tiles
#pragma unroll
      for (int n = 0; n < kD / 2; ++n) o[n] *= rows[n / 2 % 2].shrink;
#pragma unroll
    for (int key = 0; key < kN / 16; ++key)
      weights[key] = {{pack(s[key * 8], s[key * 8 + 1]), pack(s[key * 8 + 2], s[key * 8 + 3]), pack(s[key * 8 + 4], s[key * 8 + 5]),
                       pack(s[key * 8 + 6], s[key * 8 + 7])}};
  };

  scores(0);
  products_wait<0>();
  pin(s);
  release(kb, 0);
  exponentials(0);
  shrink_and_round();
  for (int step = 1; step <= last; ++step) {
    scores(step);
    ready(vb, step - 1);
    weigh_values(step - 1);
    products_wait<1>();
    pin(s);
    release(kb, step);
    exponentials(step);
    products_wait<0>();
    pin(o);
    release(vb, step - 1);
    shrink_and_round();
  }
  ready(vb, last);
  weigh_values(last);
  products_wait<0>();
  pin(o);

  // Through the queries' memory, so that rows are written sixteen bytes at a time. A warp reads and writes its own rows.
  warpgroup_barrier(group);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = rows[half].sum;
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const float over = 1.0f / total;
    const int row = row0 + lane / 4 + half * 8;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) q.put(row, n * 8 + lane % 4 * 2, pack(o[n * 4 + 2 * half] * over, o[n * 4 + 2 * half + 1] * over));
    if (p.lse && lane % 4 == 0 && m0 + row < p.T)
      p.lse[(int64_t(b) * p.H + h) * p.T + m0 + row] = rows[half].largest * p.scale + logf(total);
  }
  __syncwarp();
  for (int at = lane; at < 16 * q.kPieces; at += 32) {
    const int row = row0 + at / q.kPieces, column = at % q.kPieces * 8;
    if (m0 + row < p.T && column < p.D) *reinterpret_cast<uint4*>(p.o.row(b, m0 + row, h) + column) = q.piece(row, column);
  }
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_forward.
// Order:    a block per (tile of 128 queries, head, sequence); tiles of 128 keys from the diagonal to the first, sums in f32 in
//           registers; p is rounded to bf16 for its product with v. Maximum and sum of a row over four lanes by butterfly.
// Requires: sm_90a; aligned rows, D <= kD, kThreads threads. A start that leaves no room: nothing is written.
// Traffic:  q once, k and v once per tile of queries (mostly from L2), o and lse once.
template <int kD>
__global__ void __launch_bounds__(kHopperThreads<kD>, 1) causal_forward_hopper(const ForwardParams p) {
#if WEFT_HAS_WGMMA
  using Tiles = HopperTiles<kD>;
  extern __shared__ unsigned char memory[];
  __shared__ __align__(16) uint64_t barriers[4 * Tiles::kStages];  // full, empty by stage: keys, then values
  const typename Tiles::Q q{(shared_address(memory) + 1023) & ~1023u};
  const uint32_t keys_at = q.base + q.kBytes, values_at = keys_at + Tiles::kStages * Tiles::K::kBytes;
  const TileBarriers kb{shared_address(barriers)}, vb{kb.at + 16 * Tiles::kStages};
  const int m0 = int(gridDim.x - 1 - blockIdx.x) * Tiles::kM;  // the longest first
  const int h = int(blockIdx.y), b = int(blockIdx.z), hkv = h / p.group;
  const int before = p.start ? p.start[b] : 0, keys = before + p.T;
  if (before < 0 || before > p.most - p.T) return;
  const int last = min(before + m0 + Tiles::kM - 1, keys - 1) / Tiles::kN;

  const int group = int(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < 2 * Tiles::kStages; ++stage) {
      barrier_init(kb.full_at(stage), 64);
      barrier_init(kb.empty_at(stage), 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();  // the barriers are there
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    const auto look = [&](const typename Tiles::K& values, int n0) {
      if (n0 + Tiles::kN - 1 > before + m0 && values.template brought_not_finite<64>(int(threadIdx.x) % 64))
        p.not_finite[0] = p.not_finite[1 + b * (p.H / p.group) + hkv] = 1;
    };
    if (threadIdx.x < 64)
      fetch_tiles<kD>(keys_at, kb, p.k.row(b, 0, hkv), p.k.time, last, keys, p.D, [](const auto&, int) {});
    else
      fetch_tiles<kD>(values_at, vb, p.v.row(b, 0, hkv), p.v.time, last, keys, p.D, look);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    const int first = (group - 1) * 64;
    q.template load<128, 64>(p.q.row(b, m0 + first, h), p.q.time, p.T - m0 - first, p.D, int(threadIdx.x) % 128, first);
    copies_end();
    copies_wait<0>();
    publish_to_products();
    warpgroup_barrier(group - 1);
    attend_queries<kD>(p, q, keys_at, values_at, kb, vb, group - 1, m0, before, last);
  }
#endif
}

}  // namespace weft::cuda
