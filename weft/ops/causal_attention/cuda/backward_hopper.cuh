// The backward pass in bf16 on Hopper's tensor cores: a block keeps a tile of 128 keys and walks over the tiles of queries as
// causal_backward does, its work dealt out to warps. Two fetch queries, two add to dq by turns, and two warpgroups have 64
// keys each. Scores are computed transposed, [keys, queries], so that p and ds lie in registers as the products for dv and
// dk take them; ds alone goes through shared memory, for dq. dq's product of one step runs in the next, when the other
// warpgroup's ds has long been there, and its sum leaves for memory behind everybody's back.
#pragma once

#include <type_traits>

#include "weft/ops/causal_attention/cuda/backward_bf16.cuh"
#include "weft/ops/causal_attention/cuda/forward_hopper.cuh"

namespace weft::cuda {

// Registers: of a thread that computes, of one that fetches or adds; 2 x kMany + kFew is what three warpgroups are launched with.
template <int kD_>
struct HopperBackwardTiles {
  static constexpr int kD = kD_, kM = 64, kN = 128, kThreads = 384, kStages = kD == 64 ? 4 : 2;
  static constexpr int kMany = kD == 64 ? 216 : 232, kFew = kD == 64 ? 72 : 40;
  static_assert(2 * kMany + kFew == 504 && kStages % 2 == 0);  // a stage has the same fetching warp always
};

// What lies in shared memory. A tile of dq is one or two squares of 64x64 sums.
template <class Tiles>
struct HopperBackwardMemory {
  using Keys = SwizzledTile<Tiles::kN, Tiles::kD>;
  using Queries = SwizzledTile<Tiles::kM, Tiles::kD>;
  using Slopes = SwizzledTile<Tiles::kN, Tiles::kM>;
  static constexpr int kSquares = Tiles::kD / 64, kSquare = 64 * 64 * 4, kSums = kSquares * kSquare, kRows = 2 * Tiles::kM * 4;
  static constexpr int kBytes =
      2 * Keys::kBytes + Tiles::kStages * (2 * Queries::kBytes + kRows) + 2 * (Slopes::kBytes + kSums) + 1024;  // 1024: to align the tiles
  uint32_t base;

  __device__ __forceinline__ Keys keys() const { return {base}; }
  __device__ __forceinline__ Keys values() const { return {base + Keys::kBytes}; }
  __device__ __forceinline__ Queries queries(int stage) const { return {base + 2 * Keys::kBytes + uint32_t(stage) * 2 * Queries::kBytes}; }
  __device__ __forceinline__ Queries douts(int stage) const { return {queries(stage).base + Queries::kBytes}; }
  __device__ __forceinline__ Slopes slopes(int buffer) const { return {queries(Tiles::kStages).base + uint32_t(buffer) * Slopes::kBytes}; }
  __device__ __forceinline__ uint32_t sums(int buffer) const { return slopes(2).base + uint32_t(buffer) * kSums; }
  __device__ __forceinline__ uint32_t rows(int stage) const { return sums(2) + uint32_t(stage) * kRows; }  // lse in log2, then delta
  // Where four columns of a row lie in a square: shifted by row, so that four rows are in different banks.
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

// What a block does: a tile of keys, and steps over the tiles of queries of each head in its group.
struct HopperBackwardWork {
  int b, hkv, j, n0, first, per_head, steps, heads;
  template <class Tiles>
  __device__ __forceinline__ static HopperBackwardWork of(const BackwardParams& p, int work) {
    const int j = p.key_tiles - 1 - work % p.key_tiles, first = j * Tiles::kN / Tiles::kM, heads = p.H / p.Hkv;
    return {work / p.key_tiles / p.Hkv, work / p.key_tiles % p.Hkv,      j,    j * Tiles::kN, first,
            p.query_tiles - first,      (p.query_tiles - first) * heads, heads};
  }
  __device__ __forceinline__ int head(int step) const { return hkv * heads + step / per_head; }
  __device__ __forceinline__ int query_tile(int step) const { return first + step % per_head; }
  __device__ __forceinline__ void found_not_finite(const BackwardParams& p) const {
    p.not_finite[0] = p.not_finite[1 + b * p.Hkv + hkv] = 1;
  }
};

struct HopperBackwardBarriers {
  TileBarriers queries, slopes, sums;
};
__device__ __forceinline__ void wait_full(TileBarriers at, int buffers, int use) {
  barrier_wait(at.full_at(use % buffers), uint32_t(use / buffers) & 1);
}
__device__ __forceinline__ void wait_empty(TileBarriers at, int buffers, int use) {
  barrier_wait(at.empty_at(use % buffers), uint32_t(use / buffers + 1) & 1);
}
// Once for a warp, when all its lanes have come here: for what only products read. Of other memory every lane says that it is
// done, which racecheck understands.
__device__ __forceinline__ void warp_arrive(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

// A warp brings the queries, do, lse and delta of every second step.
template <class Tiles>
__device__ __forceinline__ void fetch_queries(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                              const HopperBackwardBarriers& barriers, const HopperBackwardWork& work, int warp) {
  const int lane = int(threadIdx.x) % 32;
  for (int step = warp; step < work.steps; step += 2) {
    const int stage = step % Tiles::kStages, h = work.head(step), m0 = work.query_tile(step) * Tiles::kM;
    const int64_t row0 = (int64_t(work.b) * p.H + h) * p.T + m0;
    const auto q = memory.queries(stage), dout = memory.douts(stage);
    float lse[Tiles::kM / 32], delta[Tiles::kM / 32];
#pragma unroll
    for (int i = 0; i < Tiles::kM / 32; ++i) {
      const int row = i * 32 + lane;
      const bool there = m0 + row < p.T;
      lse[i] = there ? p.lse[row0 + row] * kLog2e : __builtin_huge_valf();
      delta[i] = there ? p.delta[row0 + row] : 0.0f;
    }
    wait_empty(barriers.queries, Tiles::kStages, step);
    q.load_by_warp(p.q.row(work.b, m0, h), p.q.time, p.T - m0, p.D, lane);
    dout.load_by_warp(p.dout.row(work.b, m0, h), p.dout.time, p.T - m0, p.D, lane);
    copies_end();
#pragma unroll
    for (int i = 0; i < Tiles::kM / 32; ++i)
      asm volatile("st.shared.f32 [%0], %1;\nst.shared.f32 [%0 + %3], %2;\n" ::"r"(memory.rows(stage) + uint32_t(i * 32 + lane) * 4),
                   "f"(lse[i]), "f"(delta[i]), "n"(Tiles::kM * 4)
                   : "memory");
    copies_wait<0>();
    publish_to_products();
    barrier_arrive(barriers.queries.full_at(stage));
    if (work.n0 + Tiles::kN - 1 > m0 && (q.template brought_not_finite<32>(lane) || dout.template brought_not_finite<32>(lane)))
      work.found_not_finite(p);
  }
}

// The last part of a tile of dq, with the sums so far where there are `some`: in bf16 to where it belongs.
template <class Tiles>
__device__ __forceinline__ void write_queries(const BackwardParams& p, uint32_t part, const float* sums, bool some, int b, int m0, int h) {
  using Memory = HopperBackwardMemory<Tiles>;
  const int lane = int(threadIdx.x) % 32, column = lane % 8 * 8;
#pragma unroll 4
  for (int i = 0; i < Memory::kSquares * 16; ++i) {
    const int square = i / 16, row = i % 16 * 4 + lane / 8, d = square * 64 + column;
    const uint32_t at = uint32_t(square * Memory::kSquare) + Memory::in_square(row, column);
    float4 x[2], more[2] = {};
    if (some)
      more[0] = __ldcg(reinterpret_cast<const float4*>(sums + at / 4)),
      more[1] = __ldcg(reinterpret_cast<const float4*>(sums + at / 4) + 1);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];\n"
                   : "=f"(x[k].x), "=f"(x[k].y), "=f"(x[k].z), "=f"(x[k].w)
                   : "r"(part + at + uint32_t(k) * 16));
    const auto two = [&](float low, float low_more, float high, float high_more) {
      return pack((low + low_more) * p.scale, (high + high_more) * p.scale);
    };
    const uint4 out{two(x[0].x, more[0].x, x[0].y, more[0].y), two(x[0].z, more[0].z, x[0].w, more[0].w),
                    two(x[1].x, more[1].x, x[1].y, more[1].y), two(x[1].z, more[1].z, x[1].w, more[1].w)};
    if (m0 + row < p.T && d < p.D) *reinterpret_cast<uint4*>(p.dq.row(b, m0 + row, h) + d) = out;
  }
}

// A warp takes the dq of every second step to memory when its turn has come: the first part is copied, the others are added.
template <class Tiles>
__device__ __forceinline__ void add_queries(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                            const HopperBackwardBarriers& barriers, const HopperBackwardWork& work, int warp) {
  constexpr int kSums = HopperBackwardMemory<Tiles>::kSums;
  const uint32_t part = memory.sums(warp), empty = barriers.sums.empty_at(warp);
  for (int step = warp; step < work.steps; step += 2) {
    const int i = work.query_tile(step), h = work.head(step), m0 = i * Tiles::kM;
    const int64_t tile = (int64_t(work.b) * p.H + h) * p.query_tiles + i;
    const int last = min((m0 + Tiles::kM - 1) / Tiles::kN, p.key_tiles - 1);  // the first in order to add to this tile of dq
    float* sums = p.sums + tile * (kSums / 4);
    if (threadIdx.x % 32 == 0)
      while (load_acquire(p.turns + tile) != unsigned(last - work.j)) __nanosleep(20);
    __syncwarp();
    wait_full(barriers.sums, 2, step);
    if (work.j == 0) {
      write_queries<Tiles>(p, part, sums, last > 0, work.b, m0, h);
    } else if (threadIdx.x % 32 == 0) {
      asm volatile("fence.proxy.async;\n" ::: "memory");
      if (work.j == last)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(sums), "r"(part), "r"(kSums) : "memory");
      else
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(sums), "r"(part), "r"(kSums)
                     : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
    }
    __syncwarp();
    barrier_arrive(empty);
    if (work.j > 0 && threadIdx.x % 32 == 0) {
      asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;\n" ::: "memory");
      store_release(p.turns + tile, unsigned(last - work.j) + 1);
    }
  }
}

// A warp's 16 rows of sums to bf16 rows in memory through its own part of `tile`, sixteen bytes at a time.
template <class Tile, int kSums>
__device__ __forceinline__ void write_keys(const Tile& tile, const float (&x)[kSums], float scale, const Heads<__nv_bfloat16>& to,
                                           const BackwardParams& p, const HopperBackwardWork& work, int row0) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kSums / 2; ++n)
    tile.put(row0 + lane / 4 + n % 2 * 8, n / 2 * 8 + lane % 4 * 2, pack(x[n * 2] * scale, x[n * 2 + 1] * scale));
  __syncwarp();
  for (int at = lane; at < 16 * Tile::kPieces; at += 32) {
    const int row = row0 + at / Tile::kPieces, column = at % Tile::kPieces * 8;
    if (work.n0 + row < p.T && column < p.D)
      *reinterpret_cast<uint4*>(to.row(work.b, work.n0 + row, work.hkv) + column) = tile.piece(row, column);
  }
  __syncwarp();
}

// Two neighbouring queries of `rows` (lse, or delta) that this lane has of eight.
__device__ __forceinline__ float2 row_pair(uint32_t rows, int n) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n" : "=f"(x.x), "=f"(x.y) : "r"(rows + uint32_t(n * 8 + int(threadIdx.x) % 4 * 2) * 4));
  return x;
}
// Scores to p, transposed; key0, m0: the key and the query of this lane's first element.
__device__ __forceinline__ void take_weights(float (&s)[32], uint32_t lse, float to_log2, bool diagonal, int key0, int m0) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 row = row_pair(lse, n);
#pragma unroll
    for (int x = 0; x < 4; ++x) s[n * 4 + x] = exp2_approx(fmaf(s[n * 4 + x], to_log2, x % 2 ? -row.y : -row.x));
  }
  if (!diagonal) return;
#pragma unroll
  for (int n = 0; n < 32; ++n)
    if (key0 + n / 2 % 2 * 8 > m0 + n / 4 * 8 + n % 2) s[n] = 0;
}
// dp to ds = p (dp - delta).
__device__ __forceinline__ void take_slopes(float (&dp)[32], const float (&weights)[32], uint32_t delta, bool diagonal, int key0, int m0) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 row = row_pair(delta, n);
#pragma unroll
    for (int x = 0; x < 4; ++x) dp[n * 4 + x] = weights[n * 4 + x] * (dp[n * 4 + x] - (x % 2 ? row.y : row.x));
  }
  if (!diagonal) return;
#pragma unroll
  for (int n = 0; n < 32; ++n)
    if (key0 + n / 2 % 2 * 8 > m0 + n / 4 * 8 + n % 2) dp[n] = 0;
}
__device__ __forceinline__ void as_operands(FragmentA (&to)[4], const float (&x)[32]) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
    to[n] = {{pack(x[n * 8], x[n * 8 + 1]), pack(x[n * 8 + 2], x[n * 8 + 3]), pack(x[n * 8 + 4], x[n * 8 + 5]),
              pack(x[n * 8 + 6], x[n * 8 + 7])}};
}

// One warpgroup's 64 keys against all their tiles of queries. dq's square of columns is its own where there are two; where
// there is one, the warpgroups have every second step's.
template <class Tiles>
__device__ __forceinline__ void differentiate_keys(const BackwardParams& p, const HopperBackwardMemory<Tiles>& memory,
                                                   const HopperBackwardBarriers& barriers, const HopperBackwardWork& work, int group) {
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
  const auto square_begins = [&](int step) {
    wait_full(barriers.slopes, 2, step);
    products_begin();
#pragma unroll
    for (int key = 0; key < Tiles::kN; key += 16)
      multiply_by_columns(dq, memory.slopes(step % 2).by_columns(key), keys.by_columns(key, kSquares == 2 ? group * 64 : 0), key > 0);
    products_end();
  };
  const auto square_leaves = [&](int step) {
    pin(dq);
    warp_arrive(barriers.slopes.empty_at(step % 2));
    wait_empty(barriers.sums, 2, step);
    const uint32_t to = memory.sums(step % 2) + uint32_t(kSquares == 2 ? group * Memory::kSquare : 0);
#pragma unroll
    for (int n = 0; n < 16; ++n)
      asm volatile(
          "st.shared.v2.f32 [%0], {%1,%2};\n" ::"r"(to + Memory::in_square(row0 % 64 + lane / 4 + n % 2 * 8, n / 2 * 8 + lane % 4 * 2)),
          "f"(dq[n * 2]), "f"(dq[n * 2 + 1])
          : "memory");
    publish_to_products();
    barrier_arrive(barriers.sums.full_at(step % 2));
  };

  const auto go = [&](int step, auto with_square) {
    const int stage = step % Tiles::kStages, m0 = work.query_tile(step) * kM, key0 = work.n0 + row0 + lane / 4;
    const bool diagonal = work.n0 + group * 64 + 63 > m0;
    const auto q = memory.queries(stage), dout = memory.douts(stage);
    float s[32], dp[32];
    FragmentA weights[4], slopes[4];  // p and ds, transposed
    wait_full(barriers.queries, Tiles::kStages, step);
    products_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (kKeysInRegisters)
        multiply(s, k[d / 16], q.by_rows(0, d), d > 0);
      else
        multiply(s, keys.by_rows(group * 64, d), q.by_rows(0, d), d > 0);
    products_end();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (kKeysInRegisters)
        multiply(dp, v[d / 16], dout.by_rows(0, d), d > 0);
      else
        multiply(dp, values.by_rows(group * 64, d), dout.by_rows(0, d), d > 0);
    products_end();
    products_wait<1>();
    pin(s);
    take_weights(s, memory.rows(stage), p.scale * kLog2e, diagonal, key0, m0 + lane % 4 * 2);
    products_wait<0>();
    pin(dp);
    take_slopes(dp, s, memory.rows(stage) + kM * 4, diagonal, key0, m0 + lane % 4 * 2);
    as_operands(weights, s);
    as_operands(slopes, dp);
    pin(weights);
    pin(slopes);
    if constexpr (with_square.value) square_begins(step - 1);
    products_begin();
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dv, weights[n / 16], dout.by_columns(n));
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dk, slopes[n / 16], q.by_columns(n));
    products_end();
    wait_empty(barriers.slopes, 2, step);
#pragma unroll
    for (int n = 0; n < kM; n += 16) store_matrices(memory.slopes(step % 2).address(row0 + lane % 16, n + lane / 16 * 8), slopes[n / 16].r);
    publish_to_products();
    warp_arrive(barriers.slopes.full_at(step % 2));
    if constexpr (with_square.value) {
      products_wait<1>();
      square_leaves(step - 1);
    }
    products_wait<0>();
    pin(dk);
    pin(dv);
    barrier_arrive(barriers.queries.empty_at(stage));
  };
  // The compiler keeps products in flight only where it sees which there are: no step asks whether it has a square.
  constexpr std::true_type kWith{};
  constexpr std::false_type kWithout{};
  go(0, kWithout);
  if constexpr (kSquares == 2) {
    for (int step = 1; step < work.steps; ++step) go(step, kWith);
  } else {
    if (group == 1 && work.steps > 1) go(1, kWithout);
    int step = 1 + group;
    for (; step + 1 < work.steps; step += 2) {
      go(step, kWith);
      go(step + 1, kWithout);
    }
    if (step < work.steps) go(step, kWith);
  }
  if (kSquares == 2 || (work.steps - 1) % 2 == group) {
    square_begins(work.steps - 1);
    products_wait<0>();
    square_leaves(work.steps - 1);
  }
  warpgroup_barrier(group);  // nobody reads these values any more
  write_keys(values, dv, 1.0f, p.dv, p, work, row0);
  write_keys(values, dk, p.scale, p.dk, p, work, row0);
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_backward; dq's sums in squares of 64x64.
// Order:    as causal_backward: a block per (tile of 128 keys, key head, sequence), taken from a ticket; dq by turns.
// Requires: sm_90a; aligned rows, D <= kD, kThreads threads; turns and ticket zero.
// Traffic:  k, v once; q, do once per tile of keys (mostly from L2); dq's sums go to L2 once per tile of keys and are added there.
template <class Tiles>
__global__ void __launch_bounds__(kHopperBackwardThreads<Tiles>, 1) causal_backward_hopper(const BackwardParams p) {
#if WEFT_HAS_WGMMA
  using Memory = HopperBackwardMemory<Tiles>;
  extern __shared__ unsigned char bytes[];
  __shared__ __align__(16) uint64_t words[2 * Tiles::kStages + 8];
  __shared__ unsigned ticket;
  const Memory memory{(shared_address(bytes) + 1023) & ~1023u};
  const TileBarriers queries{shared_address(words)}, slopes{queries.at + 16 * Tiles::kStages}, sums{slopes.at + 32};
  const HopperBackwardBarriers barriers{queries, slopes, sums};
  if (threadIdx.x == 0) {
    ticket = atomicAdd(p.ticket, 1);
    for (int stage = 0; stage < Tiles::kStages; ++stage) {
      barrier_init(queries.full_at(stage), 32);
      barrier_init(queries.empty_at(stage), 256);
    }
    for (int buffer = 0; buffer < 2; ++buffer) {
      barrier_init(slopes.full_at(buffer), 8);
      barrier_init(slopes.empty_at(buffer), 4 * Memory::kSquares);
      barrier_init(sums.full_at(buffer), 128 * Memory::kSquares);
      barrier_init(sums.empty_at(buffer), 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();  // the barriers are there
  const HopperBackwardWork work = HopperBackwardWork::of<Tiles>(p, int(ticket));
  const int warp = int(threadIdx.x) / 32;
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kFew));
    if (warp < 2)
      fetch_queries<Tiles>(p, memory, barriers, work, warp);
    else
      add_queries<Tiles>(p, memory, barriers, work, warp - 2);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kMany));
    const int group = warp / 4 - 1, thread = int(threadIdx.x) % 128, row = work.n0 + group * 64;
    memory.keys().template load<128, 64>(p.k.row(work.b, row, work.hkv), p.k.time, p.T - row, p.D, thread, group * 64);
    memory.values().template load<128, 64>(p.v.row(work.b, row, work.hkv), p.v.time, p.T - row, p.D, thread, group * 64);
    copies_end();
    copies_wait<0>();
    if (memory.keys().template brought_not_finite<128, 64>(thread, group * 64)) work.found_not_finite(p);
    publish_to_products();
    warpgroup_barrier(group);
    differentiate_keys<Tiles>(p, memory, barriers, work, group);
  }
#endif
}

}  // namespace weft::cuda
