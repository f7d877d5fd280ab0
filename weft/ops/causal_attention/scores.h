// A tile of scores, 64 by 64, and its products with rows on one side and lanes on the other.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#endif

#include "weft/tile/cpu/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 64;         // lanes of a tile, and rows that pass by at a time
constexpr int64_t kSteps = kTile / 6;  // register blocks of a product, at least: how often it asks for rows ahead
constexpr int64_t kSpan = 4 * kTile;  // of one side: what is loaded of the other serves four tiles, and all of it fits L2

struct Sizes {
  int64_t B, T, H, Hkv, D;

  Sizes(const View& q, const View& k) : B(q.shape[0]), T(q.shape[1]), H(q.shape[2]), Hkv(k.shape[2]), D(q.shape[3]) {}
  int64_t group() const { return H / Hkv; }
  int64_t width() const { return ceil_div(D, kBlock) * kBlock; }  // of a row in a tile
  int64_t tile() const { return kTile * width(); }
  int64_t rows_from(int64_t first) const { return std::min(kTile, T - first); }
};

// Scores of `rows` rows against `lanes` lanes (a multiple of 16), in a tile [64][64]. On the diagonal, row r and lane r
// are the same token.
struct Scores {
  int64_t rows, lanes;
  bool diagonal;
};

int64_t padded(int64_t n) { return ceil_div(n, kBlock) * kBlock; }

// Which lanes see row k of a triangle: queries from k on, keys up to k.
constexpr Lanes kQueries = Lanes::from_k, kKeys = Lanes::through_k;

// The lanes of a diagonal tile that take part in the sixteen rows from `row` on, triangle included.
struct LaneRange {
  int64_t first, count;
};
template <Lanes kSide>
LaneRange near_side(const Scores& t, int64_t row) {
  return kSide == kQueries ? LaneRange{row, t.lanes - row} : LaneRange{0, row + kBlock};
}

// c[rows][64] = rows[.][D] times lanes[D][64]: scores, or do . v.
template <Lanes kSide>
void product_of_rows(const Scores& t, const Sizes& s, const float* rows, const float* lanes, float* c, FetchAhead& ahead) {
  const auto over = [&](int64_t row, int64_t count, LaneRange range) {
    product({.m = count, .n = range.count, .k = s.D, .a = rows + row * s.width(), .a_row = s.width(), .a_step = 1, .b = lanes + range.first,
             .b_row = kTile, .c = c + row * kTile + range.first, .c_row = kTile, .add = false, .meanwhile = &ahead});
  };
  if (!t.diagonal) return over(0, t.rows, {0, t.lanes});
  for (int64_t row = 0; row < t.rows; row += kBlock) over(row, std::min<int64_t>(kBlock, t.rows - row), near_side<kSide>(t, row));
}

// sums[D][64] = factor sums + rows[.][D]^T times weights[rows][64]; factor [64], or 1 when there is none.
template <Lanes kSide>
void add_weighted_rows(const Scores& t, const Sizes& s, const float* rows, const float* weights, float* sums, FetchAhead& ahead, const float* factor = nullptr) {
  const TileProduct p{.m = s.D, .n = t.lanes, .k = t.rows, .a = rows, .a_row = 1, .a_step = s.width(), .b = weights, .b_row = kTile,
                      .c = sums, .c_row = kTile, .add = true, .factor = factor, .meanwhile = &ahead};
  t.diagonal ? lane_triangle_product<kSide>(p) : product(p);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
