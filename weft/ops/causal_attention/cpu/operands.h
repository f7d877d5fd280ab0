// The operands of attention's matmuls: as f32, or as bf16 in words of two if the CPU multiplies those
// (weft/tile/cpu/bf16_dot.h, amx.h). A left factor is rows along D, read word by word; a right factor either rows side by side, for
// sums over rows, or the transposed tile, "lanes", for sums over D.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_OPERANDS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_OPERANDS_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_OPERANDS_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_OPERANDS_H_
#endif

#include "weft/tile/cpu/amx_tile_matmul.h"
#include "weft/tile/cpu/pairs.h"
#include "weft/tile/cpu/tile_matmul.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 64;         // lanes of a tile, and rows streamed at a time
constexpr int64_t kSpan = 4 * kTile;  // of one side: four tiles share what is loaded of the other, and all of it fits L2

struct Sizes {
  int64_t B, T, H, Hkv, D, grain;

  // `grain`: D is padded to a multiple of it in a tile.
  Sizes(const View& q, const View& k, int64_t grain)
      : B(q.shape[0]), T(q.shape[1]), H(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]), grain(grain) {}
  int64_t group() const { return H / Hkv; }
  int64_t width() const { return ceil_div(D, grain) * grain; }  // of a row in a tile
  int64_t tile() const { return kTile * width(); }
  int64_t rows_from(int64_t first) const { return std::min(kTile, T - first); }
};

int64_t padded(int64_t n) { return ceil_div(n, kBlock) * kBlock; }

// Rows as stored, or in a tile: a row's words are zero from D up to s.width().
struct TileRows {
  const float* at;
  int64_t step;
};
struct Factors {
  TileRows left, right;
};

// The workspace of a task.
struct NoUnit {
  NoUnit() {}
};

// Up to 64 rows of an operand.
template <class T>
struct OperandTile {
  const T* at;
  int64_t row, count;
};

// As f32, whatever the dtype of the operands; lanes are scaled when they are transposed.
template <class T_>
struct InFloats {
  using T = T_;
  using Step = FusedStep;
  using Unit = NoUnit;
  static constexpr int64_t kGrain = kBlock;

  // f32 in whole blocks is read as stored; else it is copied to `tile`, with zero rows up to `padded`.
  static TileRows rows(const Sizes& s, const OperandTile<T>& from, int64_t padded, float* tile) {
    if constexpr (std::is_same_v<T, float>)
      if (s.D % kBlock == 0 && from.count == padded) return {from.at, from.row};
    load_tile(from.at, from.row, from.count, s.D, padded, 1, tile);
    return {tile, s.width()};
  }
  static TileRows left(const Sizes& s, const OperandTile<T>& from, float* tile) { return rows(s, from, from.count, tile); }
  static TileRows right(const Sizes& s, const OperandTile<T>& from, float* tile) { return rows(s, from, from.count, tile); }
  static Factors both(const Sizes& s, const OperandTile<T>& from, float* tile) {
    const TileRows r = rows(s, from, from.count, tile);
    return {r, r};
  }
  // to[D][64], through `tile`.
  static TileRows lanes_and_right(const Sizes& s, const OperandTile<T>& from, float scale, float* tile, float* to) {
    const TileRows r = rows(s, from, padded(from.count), tile);
    transpose(padded(from.count), s.width(), r.at, r.step, scale, to, kTile);
    return r;
  }
  static void lanes(const Sizes& s, const OperandTile<T>& from, float scale, float* tile, float* to) {
    lanes_and_right(s, from, scale, tile, to);
  }
};

// As words of two bf16, which cannot be scaled exactly; the scores are scaled instead.
template <class Dot>
struct InPairs {
  using T = bf16;
  using Step = Dot;
  using Unit = std::conditional_t<std::is_same_v<Dot, AmxDot>, AmxTiles, NoUnit>;
  static constexpr int64_t kGrain = std::max(kBlock, Dot::kGrain);

  // Read as stored if words, or blocks of them, do not reach beyond a row.
  static TileRows left(const Sizes& s, const OperandTile<T>& from, float* tile) {
    if (s.D % Dot::kGrain == 0 && from.row % 2 == 0 && reinterpret_cast<uintptr_t>(from.at) % sizeof(float) == 0)
      return {reinterpret_cast<const float*>(from.at), from.row / 2};
    for (int64_t r = 0; r < from.count; ++r) {
      char* row = reinterpret_cast<char*>(tile + r * (s.width() / 2));
      std::memcpy(row, from.at + r * from.row, size_t(s.D) * sizeof(T));
      std::memset(row + s.D * int64_t(sizeof(T)), 0, size_t(s.width() - s.D) * sizeof(T));
    }
    return {tile, s.width() / 2};
  }
  static TileRows right(const Sizes& s, const OperandTile<T>& from, float* tile) {
    if (from.count % Dot::kGrain != 0 || s.D % Dot::kGrain != 0) std::fill_n(tile, s.tile() / 2, 0.0f);
    pair_rows(from.at, from.row, from.count, s.D, tile, s.width());
    return {tile, s.width()};
  }
  static Factors both(const Sizes& s, const OperandTile<T>& from, float* tile) {
    return {left(s, from, tile), right(s, from, tile + s.tile() / 2)};
  }
  static void lanes(const Sizes& s, const OperandTile<T>& from, float, float*, float* to) {
    if (s.D % Dot::kGrain != 0) std::fill_n(to, s.tile() / 2, 0.0f);
    transpose_pairs(from.at, from.row, from.count, s.D, to);
  }
  static TileRows lanes_and_right(const Sizes& s, const OperandTile<T>& from, float scale, float* tile, float* to) {
    lanes(s, from, scale, tile, to);
    return right(s, from, tile);
  }
};

// f.operator()<In>() with the policy that multiplies operands of `dtype` on this machine.
template <class F>
void with_operands(DType dtype, F f) {
  if (dtype == DType::f32) return f.template operator()<InFloats<float>>();
#if WEFT_HAS_DOT
  if (bf16_dot() == Bf16Dot::hardware) return f.template operator()<InPairs<HardwareDot>>();
#endif
  if (bf16_dot() == Bf16Dot::amx || bf16_dot() == Bf16Dot::emulated_amx) return f.template operator()<InPairs<AmxDot>>();
  if (bf16_dot() == Bf16Dot::emulated) return f.template operator()<InPairs<EmulatedDot>>();
  f.template operator()<InFloats<bf16>>();
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
