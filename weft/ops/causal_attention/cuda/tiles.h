// Tile shapes of attention on CUDA and the shared memory they take. Head dims are padded to kD: 64, 128 or 256.
#pragma once

#include "weft/tile/cuda/tiles.h"

namespace weft::cuda {

// f.operator()<kD>() with the smallest padded head dim.
template <class F>
void with_head_dim(int64_t D, F&& f) {
  if (D <= 64) return f.template operator()<64>();
  if (D <= 128) return f.template operator()<128>();
  return f.template operator()<256>();
}

// Keys of a tile of the forward pass in bf16: a row's bits depend on it, so every forward kernel and decoding have the same.
template <int kD>
inline constexpr int kForwardKeys = kD <= 128 ? 128 : 64;

// Forward on tensor cores (mma.sync): kM queries by kN keys, kWarps warps of kM / kWarps queries each, kBlocks blocks to a
// multiprocessor. Fits everywhere.
template <int kD_, int kM_, int kBlocks_>
struct ForwardTiles {
  static constexpr int kD = kD_, kM = kM_, kN = kForwardKeys<kD>, kWarps = 4, kBlocks = kBlocks_;
  static constexpr int kBytes = 2 * kD * (kM + 2 * kN);
};
template <int kD>
struct ForwardChoice;
template <>
struct ForwardChoice<64> {
  using List = TileList<ForwardTiles<64, 64, 2>>;  // three blocks: 168 registers, which spill
};
template <>
struct ForwardChoice<128> {
  using List = TileList<ForwardTiles<128, 64, 2>>;  // 16 rows a warp: scores and sums of 32 would be 256 registers
};
template <>
struct ForwardChoice<256> {
  using List = TileList<ForwardTiles<256, 64, 1>>;
};

// Backward on tensor cores: kM queries by kN keys; k, v, p and ds once, q and do in kStages stages. Each of the kWarps warps
// has kScoreRows queries of the scores, 32 keys of dk and dv, 32 queries of dq.
template <int kD_, int kM_, int kN_, int kWarps_, int kStages_>
struct BackwardTiles {
  static constexpr int kD = kD_, kM = kM_, kN = kN_, kWarps = kWarps_, kStages = kStages_, kScoreRows = kM / 2;
  static constexpr int kPitch = kN < 64 ? 64 : kN;  // of P and dS: a SharedTile has at least 64 columns
  static constexpr int kBytes = 2 * (2 * kN * kD + 2 * kStages * kM * kD + 2 * kM * kPitch);
  static_assert(kScoreRows % 16 == 0 && kN % 32 == 0 && kN % kM == 0);
};
template <int kD>
struct BackwardChoice;
template <>
struct BackwardChoice<64> {
  using List = TileList<BackwardTiles<64, 64, 128, 8, 2>>;
};
template <>
struct BackwardChoice<128> {
  using List = TileList<BackwardTiles<128, 64, 128, 8, 2>, BackwardTiles<128, 64, 64, 8, 1>>;
};
template <>
struct BackwardChoice<256> {
  using List = TileList<BackwardTiles<256, 64, 64, 8, 2>, BackwardTiles<256, 64, 64, 8, 1>, BackwardTiles<256, 32, 32, 4, 1>>;
};

// Both passes on plain multiply-adds: square tiles of kB rows. Rows are one word longer than kD, so that a column is in
// different banks. kBytes is that of the backward, the larger.
template <int kD_, int kB_>
struct SimtTiles {
  static constexpr int kD = kD_, kB = kB_, kSide = kB / 16, kRow = kD + 1;
  static constexpr int kForwardBytes = 4 * (3 * kB * kRow + kB * (kB + 1)), kBytes = 4 * (4 * kB * kRow + 2 * kB * (kB + 1));
};
template <int kD>
struct SimtChoice;
template <>
struct SimtChoice<64> {
  using List = TileList<SimtTiles<64, 64>>;
};
template <>
struct SimtChoice<128> {
  using List = TileList<SimtTiles<128, 64>, SimtTiles<128, 32>>;
};
template <>
struct SimtChoice<256> {
  using List = TileList<SimtTiles<256, 32>, SimtTiles<256, 16>>;
};

}  // namespace weft::cuda
