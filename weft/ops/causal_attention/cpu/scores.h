// A tile of scores, 64 by 64, and its matmuls with rows on one side and lanes on the other.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#endif

#include "weft/ops/causal_attention/cpu/operands.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kSteps = kTile / 6;  // register blocks of a matmul, at least: how often it prefetches

// Scores of `rows` rows against `lanes` lanes (a multiple of 16), in a tile [64][64]. On the diagonal, row r and lane r
// are the same token.
struct Scores {
  int64_t rows, lanes;
  bool diagonal;
};

enum class Lanes { queries, keys };

// The lanes of a diagonal tile that take part in the sixteen rows from `row` on, triangle included: queries from there on,
// or keys up to there.
struct LaneRange {
  int64_t first, count;
};
template <Lanes kSide>
LaneRange near_side(const Scores& t, int64_t row) {
  return kSide == Lanes::queries ? LaneRange{row, t.lanes - row} : LaneRange{0, row + kBlock};
}

// c[rows][64] = rows[.][D] times lanes[D][64]: scores, or do . v.
template <Lanes kSide, class Step>
void matmul_of_rows(const Scores& t, const Sizes& s, const TileRows& rows, const float* lanes, float* c, PrefetchQueue& prefetch) {
  const auto over = [&](int64_t row, int64_t count, LaneRange range) {
    tile_matmul<Step>({.m = count,
                       .n = range.count,
                       .k = ceil_div(s.D, Step::kElements),
                       .a = rows.at + row * rows.step,
                       .a_row = rows.step,
                       .a_step = 1,
                       .b = lanes + range.first,
                       .b_row = kTile,
                       .c = c + row * kTile + range.first,
                       .c_row = kTile,
                       .add = false,
                       .prefetch = &prefetch});
  };
  if (!t.diagonal || std::is_same_v<Step, AmxDot>)
    return over(0, t.rows, {0, t.lanes});  // AMX is faster with the whole tile than with parts
  for (int64_t row = 0; row < t.rows; row += kBlock) over(row, std::min<int64_t>(kBlock, t.rows - row), near_side<kSide>(t, row));
}

// Start of a tile's sums: zero, or their present values, times a factor [lanes] if there is one.
struct Begin {
  bool add;
  const float* factor = nullptr;
};

// sums[lanes][D] (+)= weights[rows][64]^T times rows[.][D], in steps of a row or of two: a chain over the rows for each lane, up to
// its own (queries) or from its own on (keys).
template <Lanes kSide, class Step>
void add_weighted_rows(const Scores& t, const Sizes& s, const float* weights, const TileRows& rows, int64_t lanes, Begin begin, float* sums,
                       PrefetchQueue& prefetch) {
  const TileMatmulBy<Step> p{.m = lanes,
                             .n = s.width(),
                             .k = ceil_div(t.rows, Step::kElements),
                             .a = weights,
                             .a_row = 1,
                             .a_step = kTile,
                             .b = rows.at,
                             .b_row = rows.step,
                             .c = sums,
                             .c_row = s.width(),
                             .add = begin.add,
                             .factor = begin.factor,
                             .prefetch = &prefetch};
  t.diagonal ? triangle_matmul<kSide == Lanes::queries ? Steps::through_row : Steps::from_row>(p) : tile_matmul<Step>(p);
}

// Rows of a tile, times `scale`, rounded to T.
template <class T>
void store_rows(const Sizes& s, const float* tile, int64_t rows, float scale, T* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) store_tile(tile + r * s.width(), 1, s.D, scale, to + r * to_row, 0);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
