// The ring of slabs in shared memory of the decode kernel in bf16. Head dims are padded to kD: 64, 128 or 256.
#pragma once

#include "weft/tile/cuda/tiles.h"

namespace weft::cuda {

inline constexpr int kSlab = 16;       // keys: the depth of one mma
inline constexpr int kMostHeads = 16;  // the rows of one mma
inline constexpr int kDecodeWarps = 4;

// Queries once; kStages slabs of keys and of values for each warp. The warps' outputs, in f32, are in the same memory afterwards.
template <int kD_, int kStages_>
struct DecodeTiles {
  static constexpr int kD = kD_, kStages = kStages_;
  static constexpr int kBytes = 2 * kD * (kMostHeads + kDecodeWarps * kStages * 2 * kSlab);
  static_assert(kBytes >= 4 * kD * kDecodeWarps * kMostHeads);
};
template <int kD>
struct DecodeChoice;
template <>
struct DecodeChoice<64> {
  using List = TileList<DecodeTiles<64, 3>>;
};
template <>
struct DecodeChoice<128> {
  using List = TileList<DecodeTiles<128, 3>, DecodeTiles<128, 2>>;
};
template <>
struct DecodeChoice<256> {
  using List = TileList<DecodeTiles<256, 2>, DecodeTiles<256, 1>>;
};

}  // namespace weft::cuda
