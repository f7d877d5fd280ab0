// The backward pass in bf16 on Hopper without options: the steps of causal_backward_hopper in persistent blocks. A block takes tiles of 128
// keys until none is left. One thread loads by TMA (the keys of the next tile while dK and dV of this one are written); two warps add to
// dQ.
//
// Heads that share keys are separate work items: dK and dV of a tile of keys are carried from head to head in f32 memory, read and written
// once per head. A block then works on the queries of one head, which stay in L2, and ends sooner (measured on an H200: a block that
// processes all heads with dK and dV in registers needs 240 of them at D 128, and is slower; docs/lab/cuda.md).
#pragma once

#include "weft/ops/causal_attention/cuda/key_tiles.cuh"

namespace weft::cuda {

#if WEFT_HAS_WGMMA

// Waits until the tiles of keys before j have added to a tile of dQ.
__device__ __forceinline__ void await_dq_turn(const unsigned* turn, int last, int j) {
  while (load_acquire(turn) != unsigned(last - j)) __nanosleep(20);
}

// This warp adds dQ of every second step to memory when it is this block's turn. The first addend is copied, the others are added in L2.
// For the last tile of keys, j = 0, the previous sums are loaded into the buffer, the computing warps add to them, and this warp writes the
// total in bf16. Every lane arrives at the barriers, because compute-sanitizer's racecheck does not follow the arrival of one lane for all.
template <class Tiles>
__device__ __forceinline__ void add_dq(const BackwardParams& p, const KeyTiles& all, const PersistentBackwardMemory<Tiles>& memory,
                                       int warp) {
  using Memory = PersistentBackwardMemory<Tiles>;
  const TileBarriers ring = memory.dq();
  const uint32_t part = memory.sums(warp), empty = ring.empty_at(warp);
  const bool leader = threadIdx.x % 32 == 0;
  uint32_t round = 0;
  for (int use0 = 0;; round ^= 1) {
    const int number = memory.wait_number(round);
    warp_arrive(memory.kv().empty_at(0));
    if (number < 0) return;
    const KeyTile tile = KeyTile::of<Tiles>(all, p, number);
    const unsigned index = unsigned(tile.query_index(p, 0));
    const auto turn = [&](int step) { return p.turns + (index + step); };
    const auto sums = [&](int step) { return p.sums + int64_t(index + step) * (Memory::kSums / 4); };
    // The first tile of keys that adds to a step's tile of dQ.
    const auto last = [&](int step) { return min(tile.j + step * Tiles::kM / Tiles::kN, p.key_tiles - 1); };
    for (int step = (use0 + warp) % 2; step < tile.steps; step += 2) {
      if (leader && tile.j > 0) await_dq_turn(turn(step), last(step), tile.j);
      __syncwarp();
      wait_full(ring, 2, use0 + step);
      if (tile.j == 0) {
        store_dq<Tiles>(p, part, nullptr, false, {tile.b, 0, p.T, 0, tile.b}, step * Tiles::kM, tile.h);
        __syncwarp();
        const int next = step + 2;  // in this buffer
        if (leader && next < tile.steps) {
          await_dq_turn(turn(next), last(next), 0);
          asm volatile("fence.proxy.async;\n" ::: "memory");
          barrier_arrive_expecting(empty, Memory::kSums);
          load_bulk(part, sums(next), Memory::kSums, empty);
        } else {
          barrier_arrive(empty);
        }
      } else {
        if (leader) begin_adding<Tiles>(part, sums(step), tile.j == last(step));
        __syncwarp();
        barrier_arrive(empty);
        if (leader) {
          asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;\n" ::: "memory");
          store_release(turn(step), unsigned(last(step) - tile.j) + 1);
        }
      }
    }
    use0 += tile.steps;
  }
}

// This thread's place in its warpgroup's 64 keys, from 16 rows of its warp at row0 on. Read again where it is used, so that no address
// stays in a register.
struct KeyRows {
  int lane, row0;
  __device__ __forceinline__ static KeyRows of(int group) {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
    return {thread % 32, group * 64 + thread / 32 % 4 * 16};
  }
};

template <int N>
__device__ __forceinline__ bool some_not_finite(const float (&x)[N]) {
  float zero = 0;
#pragma unroll
  for (int n = 0; n < N; ++n) zero = fmaf(x[n], 0.0f, zero);
  return zero != 0;
}

// dK or dV between two heads of a group, a warp's part; as in registers, 32 lanes side by side.
template <int N>
__device__ __forceinline__ void load_carried(float (&x)[N], const float* from, int lane) {
#pragma unroll
  for (int n = 0; n < N; n += 4) {
    const float4 four = __ldcg(reinterpret_cast<const float4*>(from) + n * 8 + lane);
    x[n] = four.x, x[n + 1] = four.y, x[n + 2] = four.z, x[n + 3] = four.w;
  }
}
template <int N>
__device__ __forceinline__ void store_carried(const float (&x)[N], float* to, int lane) {
#pragma unroll
  for (int n = 0; n < N; n += 4) __stcg(reinterpret_cast<float4*>(to) + n * 8 + lane, make_float4(x[n], x[n + 1], x[n + 2], x[n + 3]));
}

// Writes a warp's 16 rows of dV and dK: for the next head of the group, or in bf16 through the warp's own rows of dS, which both
// warpgroups have read.
template <class Tiles, int N>
__device__ __forceinline__ void store_key_tile(const BackwardParams& p, const KeyTiles& all, const PersistentBackwardMemory<Tiles>& memory,
                                               const KeyTile& tile, const float (&dv)[N], const float (&dk)[N], int group) {
  using Keys = typename PersistentBackwardMemory<Tiles>::Keys;
  const auto [lane, row0] = KeyRows::of(group);
  if (tile.h + 1 < (tile.hkv + 1) * (p.H / p.Hkv)) {
    float* to = all.carry + tile.carry_index(p) * (2 * Tiles::kN * Tiles::kD) + row0 * (2 * Tiles::kD);
    store_carried(dv, to, lane);
    store_carried(dk, to + 16 * Tiles::kD, lane);
    __syncwarp();
    __threadfence();
    if (lane == 0) atomicAdd(all.carried + tile.carry_index(p), 1u);
    return;
  }
  const Keys out{memory.dscores(0).base};
  const auto store = [&](const float(&x)[N], float scale, const Heads<__nv_bfloat16>& to) {
    __syncwarp();
    put_rows(out, row0, x, scale, lane);
    __syncwarp();
    store_rows<16>(to, out, row0, tile.b, tile.hkv, tile.n0, p.T, p.D, lane);
  };
  store(dv, 1.0f, p.dv);
  store(dk, p.scale, p.dk);
  __syncwarp();
}

// One warpgroup's 64 keys against the tiles of queries of one head. `use`: number of steps of this block so far; returns the new number. If
// a tile of dQ has two squares each warpgroup computes one; if it has one, the warpgroups alternate.
template <class Tiles>
__device__ __forceinline__ int differentiate_tile(const BackwardParams& p, const KeyTiles& all,
                                                  const PersistentBackwardMemory<Tiles>& memory, int tile_number, int use, int group) {
  using Memory = PersistentBackwardMemory<Tiles>;
  constexpr int kM = Tiles::kM, kD = Tiles::kD, kSquares = Memory::kSquares;
  const KeyTile tile = KeyTile::of<Tiles>(all, p, tile_number);
  const auto keys = memory.keys(), values = memory.values();
  float dk[kD / 2] = {}, dv[kD / 2] = {}, dq[32];
  FragmentA k[Tiles::kKeysInRegisters ? kD / 16 : 1], v[Tiles::kKeysInRegisters ? kD / 16 : 1];
  {
    const auto [lane, row0] = KeyRows::of(group);
    if (tile.g > 0) {
      const float* from = all.carry + tile.carry_index(p) * (2 * Tiles::kN * kD) + row0 * (2 * kD);
      load_carried(dv, from, lane);
      load_carried(dk, from + 16 * kD, lane);
    }
    if constexpr (Tiles::kKeysInRegisters)
#pragma unroll
      for (int d = 0; d < kD; d += 16) {
        load_matrices(k[d / 16].r, keys.address(row0 + lane % 16, d + lane / 16 * 8));
        load_matrices(v[d / 16].r, values.address(row0 + lane % 16, d + lane / 16 * 8));
      }
  }
  pin(dk);
  pin(dv);
  // The sums contain 0 x inf of a masked operand. The report recomputes its tile so that it costs no registers.
  const auto report = [&] {
    const KeyTile at = KeyTile::of<Tiles>(all, p, memory.read_number());
    p.not_finite[0] = p.not_finite[1 + at.b * p.Hkv + at.hkv] = 1;
  };
  const int added = tile.j == 0 ? 2 : tile.steps;  // from this step on, sums so far are in dQ's buffer; see add_dq
  const auto begin_dq = [&](int step, auto keys_of_dq) {
    wait_full(memory.ds(), 2, use + step);
    wgmma_begin();
#pragma unroll
    for (int key = 0; key < keys_of_dq.value; key += 16)
      multiply_by_columns(dq, memory.dscores((use + step) % 2).by_columns(key), keys.by_columns(key, kSquares == 2 ? group * 64 : 0),
                          key > 0);
    wgmma_commit();
  };
  const auto put_dq = [&](int step) {
    const auto [lane, row0] = KeyRows::of(group);
    const int buffer = (use + step) % 2, row = row0 % 64 + lane_row(lane), column = lane_column(lane);
    pin(dq);
    warp_arrive(memory.ds().empty_at(buffer));
    if (step < 2 && __any_sync(0xffffffffu, some_not_finite(dq))) report();  // the first two steps are on the diagonal
    wait_empty(memory.dq(), 2, use + step);
    const uint32_t to = memory.sums(buffer) + uint32_t(kSquares == 2 ? group * Memory::kSquare : 0);
    if (step >= added)
#pragma unroll
      for (int n = 0; n < 32; n += 2) {
        float2 more;
        asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n"
                     : "=f"(more.x), "=f"(more.y)
                     : "r"(to + Memory::in_square(row + sum_row(n), sum_column(n) + column)));
        dq[n] += more.x, dq[n + 1] += more.y;
      }
#pragma unroll
    for (int n = 0; n < 32; n += 2)
      asm volatile("st.shared.v2.f32 [%0], {%1,%2};\n" ::"r"(to + Memory::in_square(row + sum_row(n), sum_column(n) + column)), "f"(dq[n]),
                   "f"(dq[n + 1])
                   : "memory");
    fence_for_wgmma();
    barrier_arrive(memory.dq().full_at(buffer));
  };
  const auto end_dq = [&](int step, auto keys_of_dq) {
    begin_dq(step, keys_of_dq);
    wgmma_wait<0>();
    put_dq(step);
  };

  // A step, with the matmul for dQ of the step before over so many of its keys. ptxas serializes wgmmas unless it knows statically which
  // are in flight.
  const auto run_step = [&](int step, auto keys_of_dq, auto may_be_masked) {
    const auto [lane, row0] = KeyRows::of(group);
    const int now = use + step, stage = now % Tiles::kStages;
    const int key = row0 + lane_row(lane), query = step * kM + lane_column(lane);  // relative to the first key of the tile
    const bool diagonal = may_be_masked.value && group * 64 + 63 > step * kM;
    const auto q = memory.queries(stage), dout = memory.douts(stage);
    float s[32], dp[32];
    FragmentA weights[4], dscores[4];  // p and ds, transposed
    wait_full(memory.steps(), Tiles::kStages, now);
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (Tiles::kKeysInRegisters)
        multiply(s, k[d / 16], q.by_rows(0, d), d > 0);
      else
        multiply(s, keys.by_rows(group * 64, d), q.by_rows(0, d), d > 0);
    wgmma_commit();
#pragma unroll
    for (int d = 0; d < kD; d += 16)
      if constexpr (Tiles::kKeysInRegisters)
        multiply(dp, v[d / 16], dout.by_rows(0, d), d > 0);
      else
        multiply(dp, values.by_rows(group * 64, d), dout.by_rows(0, d), d > 0);
    wgmma_commit();
    wgmma_wait<1>();
    pin(s);
    scores_to_weights(s, memory.rows(stage), p.scale * kLog2e, diagonal, key, query);
    wgmma_wait<0>();
    pin(dp);
    dp_to_dscores(dp, s, memory.rows(stage) + kM * 4, diagonal, key, query);
    round_to_operands(weights, s);
    round_to_operands(dscores, dp);
    pin(weights);
    pin(dscores);
    if constexpr (keys_of_dq.value > 0) begin_dq(step - 1, keys_of_dq);
    wgmma_begin();
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dv, weights[n / 16], dout.by_columns(n));
#pragma unroll
    for (int n = 0; n < kM; n += 16) multiply_add(dk, dscores[n / 16], q.by_columns(n));
    wgmma_commit();
    wait_empty(memory.ds(), 2, now);
#pragma unroll
    for (int n = 0; n < kM; n += 16)
      store_matrices(memory.dscores(now % 2).address(row0 + lane % 16, n + lane / 16 * 8), dscores[n / 16].r);
    fence_for_wgmma();
    warp_arrive(memory.ds().full_at(now % 2));
    if constexpr (keys_of_dq.value > 0) {
      wgmma_wait<1>();
      put_dq(step - 1);
    }
    wgmma_wait<0>();
    pin(dk);
    pin(dv);
    barrier_arrive(memory.steps().empty_at(stage));
  };
  constexpr std::integral_constant<int, 0> kNone;
  constexpr std::integral_constant<int, Tiles::kN> kAll;
  constexpr std::integral_constant<int, Tiles::kSkip ? 64 : Tiles::kN> kFirst;  // keys in dQ of the first step
  constexpr std::true_type kMasked;
  constexpr std::false_type kPlain;
  const int steps = tile.steps;
  if (!Tiles::kSkip || group == 0) {
    run_step(0, kNone, kMasked);
  } else {  // all of its keys are after the first step's queries
    wait_full(memory.steps(), Tiles::kStages, use);
    barrier_arrive(memory.steps().empty_at(use % Tiles::kStages));
    warp_arrive(memory.ds().full_at(use % 2));
  }
  if constexpr (kSquares == 2) {
    if (steps == 1) {
      end_dq(0, kFirst);
    } else {
      run_step(1, kFirst, kMasked);
#pragma unroll 1
      for (int step = 2; step < steps; ++step) run_step(step, kAll, kPlain);
      end_dq(steps - 1, kAll);
    }
  } else {
    if (group == 1 && steps > 1) run_step(1, kNone, kMasked);
    int step = 1 + group;
#pragma unroll 1
    for (; step + 1 < steps; step += 2) {
      run_step(step, kAll, kMasked);
      run_step(step + 1, kNone, kMasked);
    }
    if (step < steps) run_step(step, kAll, kMasked);
    if ((steps - 1) % 2 == group) end_dq(steps - 1, kAll);
  }
  use += steps;
  if (__any_sync(0xffffffffu, some_not_finite(dk) || some_not_finite(dv))) report();
  const int number = memory.read_number();
  warp_arrive(memory.kv().empty_at(0));  // the next tile's keys may come
  wait_empty(memory.ds(), 2, use);
  wait_empty(memory.ds(), 2, use + 1);
  store_key_tile(p, all, memory, KeyTile::of<Tiles>(all, p, number), dv, dk, group);
  return use;
}

#endif  // WEFT_HAS_WGMMA

// Equation, layout: as causal_backward, without options; dq's sums in squares of 64x64.
// Order:    as causal_backward: dk and dv head by head of a group and tile by tile of queries, dq by turns from the last tile of keys to
//           the first. Persistent blocks take tiles of keys from a counter; no block waits for a tile that is taken later.
// Requires: sm_90a; maps of q and do (boxes of kM rows), k and v (kN) with D <= kD; aligned dq, dk, dv; kThreads threads; turns, next
//           and carried zero.
// Traffic:  k, v once per head; q, do once per tile of keys (mostly from L2); sums of dq are added in L2 once per tile of keys.
template <class Tiles>
__global__ void __launch_bounds__(kHopperBackwardThreads<Tiles>, 1)
    causal_backward_persistent(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                               const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout, const KeyTiles all,
                               const BackwardParams p) {
#if WEFT_HAS_WGMMA
  extern __shared__ __align__(1024) unsigned char backward_tiles_memory[];
  PersistentBackwardMemory<Tiles> memory;
  memory.base = shared_address(backward_tiles_memory);
  if (threadIdx.x == 0) memory.init_barriers();
  __syncthreads();  // the barriers are initialized
  const int warp = int(threadIdx.x) / 32;
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Tiles::kLoadRegisters));
    if (warp > 0 && warp <= Tiles::kAddWarps)
      add_dq<Tiles>(p, all, memory, warp - 1);
    else if (threadIdx.x == 0)
      load_key_tiles<Tiles>(p, all, {q, k, v, dout}, memory);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Tiles::kComputeRegisters));
    const int group = __shfl_sync(0xffffffffu, warp / 4 - 1, 0);  // in a uniform register
    uint32_t round = 0;
#pragma unroll 1
    for (int use = 0;; round ^= 1) {
      const int number = memory.wait_number(round);
      if (number < 0) break;
      use = differentiate_tile<Tiles>(p, all, memory, number, use, group);
    }
  }
#endif
}

}  // namespace weft::cuda
