// Decoding in bf16: the values weighed by the softmax of the scores, on tensor cores. The sums of a column have one order, tile after tile;
// what can be done ahead of it is: some warps compute the weights of the next round of tiles, and its values are loaded asynchronously,
// while others add this round's.
#pragma once

#include "weft/ops/kv_attention/cuda/scores_here.cuh"
#include "weft/ops/kv_pages.h"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

// Shared memory of weigh_values: two rounds, in turns.
template <class Tiles>
struct WeighMemory {
  static constexpr int kRound = Tiles::kTiles;
  using Values = SharedTile<Tiles::kN, Tiles::kColumns>;
  unsigned char* at;

  __device__ __forceinline__ static int slot(int round, int t) { return round % 2 * kRound + t; }
  __device__ __forceinline__ Values values(int round, int t) const {
    return {shared_address(at) + uint32_t(slot(round, t) * Tiles::kValueBytes)};
  }
  // Of one lane: a FragmentB for each sixteen keys, 32 lanes apart.
  __device__ __forceinline__ uint2* weights(int round, int t, int lane) const {
    return reinterpret_cast<uint2*>(at + 2 * kRound * Tiles::kValueBytes + slot(round, t) * Tiles::kWeightBytes) + lane;
  }
  __device__ __forceinline__ float& sum(int round, int t, int lane) const {
    return reinterpret_cast<float*>(at + 2 * kRound * (Tiles::kValueBytes + Tiles::kWeightBytes))[slot(round, t) * 32 + lane];
  }
  __device__ __forceinline__ float* shrink(int round, int t) const {
    return reinterpret_cast<float*>(at + 2 * kRound * (Tiles::kValueBytes + Tiles::kWeightBytes + Tiles::kSumBytes)) +
           slot(round, t) * kDecodeHeads;
  }
};

// The tiles of a round: `count` of them, downward from tile `top`.
struct Round {
  int index, top, count;
};

// Loads the values of a round: columns [0, columns) of the rows at row(key) for keys in [low, length), zeros for other keys. Rows of an
// aligned run of 64 keys are `stride` elements apart. All threads share the work.
template <class Tiles, class Row>
__device__ __forceinline__ void load_values(const WeighMemory<Tiles>& memory, const Round& round, const Row& row_at, int64_t stride,
                                            int low, int length, int columns, bool aligned) {
  using Values = typename WeighMemory<Tiles>::Values;
  constexpr int kN = Tiles::kN, kThreads = kDecodeWarps * 32, kPieces = Values::kPieces, kRowsAtOnce = kThreads / kPieces;
  const int thread = int(threadIdx.x);
  if (aligned) {
    // A thread has one row of every tile, or of every kTilesAtOnce-th, or rows kRowsAtOnce apart: their places differ by constants.
    constexpr int kInTile = kRowsAtOnce < kN ? kN / kRowsAtOnce : 1, kTilesAtOnce = kRowsAtOnce < kN ? 1 : kRowsAtOnce / kN;
    static_assert(kThreads % kPieces == 0 && Tiles::kTiles % kTilesAtOnce == 0 && kRowsAtOnce % 8 == 0);
    const int t0 = thread / kPieces / kN, row = thread / kPieces % kN, column = thread % kPieces * 8, key0 = (round.top - t0) * kN + row;
    const uint32_t to = memory.values(round.index, t0).address(row, column);
    const __nv_bfloat16* none = row_at(0);
#pragma unroll
    for (int i = 0; i < Tiles::kTiles / kTilesAtOnce * kInTile; ++i) {
      const int t = i / kInTile * kTilesAtOnce, below = i % kInTile * kRowsAtOnce, further = below - t * kN, key = key0 + further;
      if (key < (round.top - round.count + 1) * kN) continue;  // a round may have fewer than kTiles tiles
      const bool inside = key >= low && key < length && column < columns;
      copy_async(to + uint32_t(t * Tiles::kValueBytes + below * Tiles::kColumns * 2), inside ? row_at(key) + column : none,
                 inside ? 16 : 0);
    }
  } else {
    constexpr int kRows = int(kPageMultiple), kSlabs = kN / kRows;
    constexpr int kLoaders = kRows * kPieces < kThreads ? kRows * kPieces : kThreads;  // threads that load a part of a tile
#pragma unroll 1
    for (int s = thread / kLoaders; s < round.count * kSlabs; s += kThreads / kLoaders) {
      const int below = s % kSlabs * kRows, key = (round.top - s / kSlabs) * kN + below;
      const SharedTile<kRows, Tiles::kColumns> slab{memory.values(round.index, s / kSlabs).base + uint32_t(below * Tiles::kColumns * 2)};
      slab.template load<kLoaders>(row_at(min(key, length - 1)), stride, length - key, columns, false, thread % kLoaders);
      for (int i = thread % kLoaders; i < kRows * kPieces; i += kLoaders)  // the pieces that this thread loaded
        if (key + i / kPieces < low)
          for (int two = 0; two < 8; two += 2) slab.put(i / kPieces, i % kPieces * 8 + two, 0);
    }
  }
  copies_end();
}

// Weights of one head: lane l has head l / 4 and, of each group of eight keys, columns 2 (l % 4) and its right neighbour, as a lane of the
// forward pass has.
template <class Tiles>
class HeadWeights {
 public:
  __device__ __forceinline__ HeadWeights(const float* scores, const float* maxima, float to_log2, int lane)
      : scores_(scores + lane_column(lane)), maxima_(maxima), to_log2_(to_log2), lane_(lane) {}

  // The scores of one tile, and the maxima of all tiles of its round.
  struct Loaded {
    float2 s[Tiles::kGroups];
    float tops[Tiles::kTiles][Tiles::kN / kScoreKeys];
  };
  __device__ __forceinline__ void load(Loaded& to, const Round& round, int first) const {
    if (first < round.count) load_scores(to, round.top - first);
    constexpr int kMaxima = Tiles::kN / kScoreKeys;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int i = 0; i < kMaxima; ++i) to.tops[t][i] = t < round.count ? maxima_[(round.top - t) * kMaxima + i] : Max::kNone;
  }
  // The weights of tiles first, first + step, ... of the round; the first of them was loaded.
  __device__ __forceinline__ void weigh(const WeighMemory<Tiles>& memory, Loaded& loaded, const Round& round, int first, int step) {
    for (int t = first; t < round.count; t += step) {
      if (t > first) load_scores(loaded, round.top - t);
      const ScoreBase base(most(loaded, t + 1), to_log2_);
      float2(&s)[Tiles::kGroups] = loaded.s;
      const float more = scores_to_weights<Tiles::kGroups>(base, [&](int g, int i) -> float& { return i == 0 ? s[g].x : s[g].y; });
      uint2* to = memory.weights(round.index, t, lane_);
#pragma unroll
      for (int k = 0; k < Tiles::kSteps; ++k) to[k * 32] = {pack(s[2 * k].x, s[2 * k].y), pack(s[2 * k + 1].x, s[2 * k + 1].y)};
      memory.sum(round.index, t, lane_) = more;
      if (lane_ % 4 == 0) memory.shrink(round.index, t)[lane_row(lane_)] = base.weight(most(loaded, t));
    }
    largest_ = most(loaded, kTiles);
  }

 private:
  static constexpr int kTiles = Tiles::kTiles;
  const float *scores_, *maxima_;
  const float to_log2_;
  const int lane_;
  float largest_ = Max::kNone;  // of the rounds before

  __device__ __forceinline__ void load_scores(Loaded& to, int tile) const {
    const float* from = scores_ + int64_t(tile) * Tiles::kN;
#pragma unroll
    for (int g = 0; g < Tiles::kGroups; ++g) to.s[g] = *reinterpret_cast<const float2*>(from + g * 8);
  }
  // The maximum of the rounds before and the first `count` tiles of this one.
  __device__ __forceinline__ float most(const Loaded& loaded, int count) const {
    float x = largest_;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (const float top : loaded.tops[t])
        if (t < count) x = fmaxf(x, top);
    return x;
  }
};

// Sums of one warp: sixteen columns of the values (the rows of mma) for each head (its columns), and of the weights, by lane as
// HeadWeights.
template <class Tiles>
struct ValueSums {
  FragmentC o = {};
  float sum = 0;

  // One lane's operands of a tile.
  struct Operands {
    FragmentA values[Tiles::kSteps];
    uint2 weights[Tiles::kSteps];
    float2 shrink;  // of this lane's two columns of o
    float shrink_sum, more;
  };
  // Where a lane finds them in the tiles of a round.
  struct Place {
    const WeighMemory<Tiles>& memory;
    int round, column, lane;

    __device__ __forceinline__ void load_factors(Operands& to, int t) const {
      const float* shrink = memory.shrink(round, t);
      to.shrink = *reinterpret_cast<const float2*>(shrink + lane_column(lane));
      to.shrink_sum = shrink[lane_row(lane)], to.more = memory.sum(round, t, lane);
    }
    __device__ __forceinline__ void load_step(Operands& to, int t, int k) const {
      to.values[k] = memory.values(round, t).a_transposed(k * 16, column);
      to.weights[k] = memory.weights(round, t, lane)[k * 32];
    }
  };

  // Adds a tile while the operands of tile `t` are loaded into `next`.
  __device__ __forceinline__ void add_tile(const Operands& tile, Operands& next, const Place& place, int t) {
    place.load_factors(next, t);
    sum = fmaf(sum, tile.shrink_sum, tile.more);
#pragma unroll
    for (int i = 0; i < 4; ++i) o.x[i] *= i % 2 == 0 ? tile.shrink.x : tile.shrink.y;
#pragma unroll
    for (int k = 0; k < Tiles::kSteps; ++k) {
      place.load_step(next, t, k);
      multiply_add(o, tile.values[k], FragmentB{{tile.weights[k].x, tile.weights[k].y}});
    }
  }

  // The `count` tiles of a round, one after the other.
  __device__ __forceinline__ void add_round(const WeighMemory<Tiles>& memory, int round, int count, int column, int lane) {
    const Place place{memory, round, column, lane};
    Operands even, odd;
    place.load_factors(even, 0);
#pragma unroll
    for (int k = 0; k < Tiles::kSteps; ++k) place.load_step(even, 0, k);
#pragma unroll 1
    for (int t = 0; t < count; t += 2) {
      add_tile(even, odd, place, min(t + 1, count - 1));
      if (t + 1 < count) add_tile(odd, even, place, min(t + 2, count - 1));
    }
  }
};

// Equation: o = sum of 2^(to_log2 (s_j - m)) v_j / sum of 2^(to_log2 (s_j - m)), to_log2 = scale log2(e), m the running maximum.
// Layout:   scores and maxima as in DecodeParams; v [B, capacity, Hkv, D] or paged, any strides over B, time and heads; o [B, queries, H,
// D]. Order:    a block per (kColumns columns, up to kDecodeHeads heads of one key head, query). A row's order is that of causal_forward:
// tiles
//           of kN keys, descending to the first of its window; within a tile keys ascend in blocks of 16; p is rounded to bf16. The columns
//           of a tile are the rows of mma, heads its columns: sums have the products of causal_forward in the same order.
// Requires: 32 kDecodeWarps threads; unaligned rows are loaded element by element.
// Traffic:  every cached value once per kDecodeHeads heads of its group, scores once per kColumns columns (from L2), o once.
// kD > 0: this kernel also computes the scores, for head dims up to kD and caches of up to Tiles::kShort positions. kD = 0: score_keys
// does.
template <class Tiles, int kD>
__global__ void __launch_bounds__(kDecodeWarps * 32, kD > 0 ? 1 : 2) weigh_values(const DecodeParams<__nv_bfloat16> p) {
  constexpr int kChain = Tiles::kChainWarps;
  extern __shared__ __align__(128) unsigned char bytes[];
  const WeighMemory<Tiles> memory{bytes};
  let_next_kernel_start();
  wait_for_kernel_before();
  const DecodeBlock block(p);
  if (block.length == 0) return;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, column0 = int(blockIdx.x) * Tiles::kColumns;
  const int last = (block.length - 1) / Tiles::kN, tiles = last - block.first_tile<Tiles::kQueries, Tiles::kN>(p) + 1;
  const int rounds = (tiles + Tiles::kTiles - 1) / Tiles::kTiles;
  const auto at = [&](int round) {
    const int top = last - round * Tiles::kTiles;
    return Round{round, top, min(Tiles::kTiles, tiles - round * Tiles::kTiles)};
  };
  const auto values = [&](int key) { return p.v.row(block.b, key, block.hkv) + column0; };
  const auto load = [&](int round) { load_values(memory, at(round), values, p.v.time, block.low, block.length, p.D - column0, p.aligned); };
  load(0);
  load(1);
  const int head = min(lane_row(lane), block.heads - 1);  // lanes without a head repeat the last one
  const int64_t row = block.row(p, head);
  const float *scores = p.scores + row * p.pitch, *maxima = p.maxima + row * (p.pitch / kScoreKeys);
  if constexpr (kD > 0) {
    const ScoresHere<Tiles::kShort> here{reinterpret_cast<float*>(bytes + Tiles::kBytes)};
    score_here<kD, kDecodeWarps>(here, p, block, (last + 1 - tiles) * Tiles::kN, (last + 1) * Tiles::kN);
    scores = here.scores(head), maxima = here.maxima(head);
  }
  HeadWeights<Tiles> weights(scores, maxima, p.scale * kLog2e, lane);
  ValueSums<Tiles> sums;

  // Round by round, some warps add its tiles while the others compute the weights of the next; before the first, all do the latter.
  for (int round = -1;; ++round) {
    const bool begins = round < 0, adds = !begins && warp < kChain;
    const int first = begins ? warp : warp - kChain, step = begins ? kDecodeWarps : kDecodeWarps - kChain;
    const Round next = at(round + 1);
    typename HeadWeights<Tiles>::Loaded loaded = {};  // initialized, so that no register keeps the last iteration's while tiles are added
    if (!adds) weights.load(loaded, next, first);
    if (round > 0) load(round + 1);  // rounds 0 and 1 are loaded before the loop
    if (adds)
      sums.add_round(memory, round, at(round).count, warp * 16, lane);
    else
      weights.weigh(memory, loaded, next, first, step);
    if (round + 1 == rounds) break;
    copies_wait<0>();
    __syncthreads();  // values and weights of the next round are there; those of this one have been read
  }

  if (warp >= kChain) return;
  const float inverse = 1.0f / quad_sum(sums.sum);  // of head lane / 4
  const float of_head[2] = {__shfl_sync(0xffffffffu, inverse, lane_column(lane) * 4),
                            __shfl_sync(0xffffffffu, inverse, lane_column(lane) * 4 + 4)};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int head = FragmentC::column(i, lane), d = column0 + warp * 16 + FragmentC::row(i, lane);
    if (head < block.heads && d < p.D) p.o.row(block.b, block.t, block.head0 + head)[d] = __float2bfloat16_rn(sums.o.x[i] * of_head[i % 2]);
  }
}

}  // namespace weft::cuda
