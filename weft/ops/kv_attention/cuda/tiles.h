// Tiles of the decode kernels in bf16, and the shared memory they take. Head dims are padded to kD: 64, 128 or 256.
#pragma once

#include "weft/ops/causal_attention/cuda/tiles.h"

namespace weft::cuda {

inline constexpr int kDecodeHeads = 8;  // heads of a block, all of one key head: the columns of one mma
inline constexpr int kDecodeWarps = 8;  // of weigh_values: one for each tile of its first round, which batch 1 waits for

// Queries of a block of the forward pass, counted from position 0. With a window, the queries of a block share their first tile of keys.
template <int kD>
inline constexpr int kForwardQueries = kD <= 128 ? 128 : 64;

// score_keys: one warp has kScoreKeys keys of kD columns in shared memory.
inline constexpr int kScoreKeys = 64;  // 1024 keys of 8 key heads are 128 warps: one for each multiprocessor of an H200
template <int kD>
inline constexpr int kScoreBytes = 2 * kD * kScoreKeys;

// weigh_values: kColumns columns of the values, a warp for each sixteen, in tiles of kN keys. A round is kTiles tiles; values and weights
// of two rounds are in shared memory.
template <int kN_, int kQueries_, int kColumns_>
struct WeighTiles {
  static constexpr int kN = kN_, kQueries = kQueries_, kColumns = kColumns_, kChainWarps = kColumns / 16, kGroups = kN / 8,
                       kSteps = kN / 16;
  // Narrow: seven tiles of 128, one for each warp that is left for weights; two blocks fit into the 227 KiB of a multiprocessor.
  // Wide: 32 KiB of values are in flight, three blocks fit.
  static constexpr int kTiles = (kColumns == 16 ? 896 : 256) / kN;
  static constexpr int kValueBytes = 2 * kN * kColumns;                      // of a tile
  static constexpr int kWeightBytes = 2 * kN * kDecodeHeads;                 // of a tile, as operands of mma
  static constexpr int kSumBytes = 4 * 32, kShrinkBytes = 4 * kDecodeHeads;  // of a tile: each lane's sum, each head's factor
  static constexpr int kBytes = 2 * kTiles * (kValueBytes + kWeightBytes + kSumBytes + kShrinkBytes);
  static constexpr int kShort = 1792;  // longest cache for which one kernel computes scores and output: two rounds of keys
  static_assert(kChainWarps < kDecodeWarps && kN % kScoreKeys == 0);
};
template <int kD>
struct WeighChoice {
  using Narrow = TileList<WeighTiles<kForwardKeys<kD>, kForwardQueries<kD>, 16>>;
  using Wide = TileList<WeighTiles<kForwardKeys<kD>, kForwardQueries<kD>, 64>>;
};

}  // namespace weft::cuda
