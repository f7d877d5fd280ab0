// A tile of scores, 64 by 64, and its matmuls with rows on one side and lanes on the other.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_SCORES_H_
#endif

#include "weft/ops/causal_attention/cpu/operands.h"
#include "weft/tile/cpu/math.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kSteps = kTile / 6;  // register blocks of a matmul, at least: how often it prefetches

// Keys that queries attend to in a tile that a window cuts: those less than `window` before query's own position, and none after it.
// The tile's first query is `ahead` positions after its first key.
struct Band {
  int64_t ahead = 0, window = 0;

  explicit operator bool() const { return window > 0; }
};

struct Range {
  int64_t first, last;  // last is not in it

  Range within(int64_t count) const { return {std::clamp<int64_t>(first, 0, count), std::clamp<int64_t>(last, 0, count)}; }
};
inline Range keys_of(const Band& band, int64_t query) { return {query + band.ahead - band.window + 1, query + band.ahead + 1}; }
inline Range queries_of(const Band& band, int64_t key) { return {key - band.ahead, key - band.ahead + band.window}; }

// Scores of `rows` rows against `lanes` lanes (a multiple of 16), in a tile [64][64]. On the diagonal, row r and lane r
// are the same token. A tile that a window cuts has a band instead, whether it is on the diagonal or not.
struct Scores {
  int64_t rows, lanes;
  bool diagonal;
  Band band = {};
};

// The rule for scores of a sequence: s = scale q . k, then the soft cap; and the window.
struct ScoreRule {
  static constexpr int64_t kNoWindow = int64_t(1) << 40;
  float scale, soft_cap;
  int64_t window;

  ScoreRule(float scale, float soft_cap, int64_t window, int64_t T)
      : scale(scale), soft_cap(soft_cap), window(window > 0 && window < T ? window : kNoWindow) {}

  // The first key of the first tile that query i attends to.
  int64_t first_key(int64_t i) const { return std::max<int64_t>(0, i - window + 1) / kTile * kTile; }
  // One past the last query that attends to keys before `key`.
  int64_t last_query(int64_t key) const { return key + window - 1; }
  // The tile of `queries` queries from i0 on and the keys from j0 on.
  Scores tile(int64_t rows, int64_t lanes, int64_t i0, int64_t queries, int64_t j0) const {
    if (i0 + queries - 1 - j0 >= window) return {rows, lanes, false, {i0 - j0, window}};
    return {rows, lanes, i0 == j0};
  }
};

// Soft cap: s -> cap tanh(scale s / cap), for the scores of a tile that are computed (not masked).
inline void cap_scores(const Scores& t, const ScoreRule& rule, float* scores) {
  const F32x16 cap = splat(rule.soft_cap), inverse = splat(1 / rule.soft_cap), scale = splat(rule.scale);
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t lane = t.diagonal ? r / kBlock * kBlock : 0; lane < t.lanes; lane += kBlock) {
      float* at = scores + r * kTile + lane;
      store(cap * tanh(load(at) * scale * inverse), at);
    }
}

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

// Whether no element of rows of floats is an infinity or NaN.
inline bool rows_are_finite(const float* at, int64_t row, int64_t rows, int64_t columns) {
  const DU du;
  auto most = hn::Zero(du);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += kLanes)
      most = hn::Max(most, hn::And(hn::BitCast(du, hn::LoadU(D(), at + r * row + c)), hn::Set(du, 0x7fffffffu)));
  return hn::AllTrue(du, hn::Lt(most, hn::Set(du, 0x7f800000u)));
}

// The same for rows of a matmul's steps: floats, or words of two.
template <class Step>
bool steps_are_finite(const float* at, int64_t row, int64_t steps, int64_t columns) {
  if constexpr (Step::kElements == 2) return pairs_are_finite(at, row, steps, columns);
  return rows_are_finite(at, row, steps, columns);
}

// A matmul of which row m of C takes only the k of range(m), and A is zero elsewhere. Zero times NaN or infinity would spoil the sum: if
// B is not finite, those terms are left out one by one.
template <class Step, class RangeOf>
void banded_matmul(const TileMatmulBy<Step>& t, RangeOf range) {
  constexpr int kElements = Step::kElements;
  if (steps_are_finite<Step>(t.b, t.b_row, t.k, t.n)) return tile_matmul<Step>(t);
  for (int64_t m = 0; m < t.m; ++m) {
    const Range taken = range(m).within(t.k * kElements);
    for (int64_t n = 0; n < t.n; n += kBlock) {
      float* c = t.c + m * t.c_row + n;
      F32x16 sum = t.add ? load(c) : zero();
      if (t.factor) sum = sum * splat(t.factor[m]);
      for (int64_t k = taken.first / kElements; k < ceil_div(taken.last, kElements) && taken.first < taken.last; ++k) {
        F32x16 a = splat(t.a[m * t.a_row + k * t.a_step]), b = load(t.b + k * t.b_row + n);
        if constexpr (kElements == 2) {
          if (2 * k < taken.first) a = Step::odd_only(a), b = Step::odd_only(b);
          if (2 * k + 1 >= taken.last) a = Step::even_only(a), b = Step::even_only(b);
        }
        sum = Step::add(a, b, sum);
      }
      store(sum, c);
    }
  }
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

// The matmul sums[lanes][D] (+)= weights[rows][64]^T rows[.][D]. Each lane is one FMA chain over the rows, one or two rows per step.
template <class Step>
TileMatmulBy<Step> weighted_rows(const Scores& t, const Sizes& s, const float* weights, const TileRows& rows, int64_t lanes, Begin begin,
                                 float* sums, PrefetchQueue& prefetch) {
  return {.m = lanes,
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
}

// The same matmul with a causal mask: a lane takes the rows up to its own (queries) or from its own on (keys).
template <Lanes kSide, class Step>
void add_weighted_rows(const Scores& t, const Sizes& s, const float* weights, const TileRows& rows, int64_t lanes, Begin begin, float* sums,
                       PrefetchQueue& prefetch) {
  const TileMatmulBy<Step> p = weighted_rows<Step>(t, s, weights, rows, lanes, begin, sums, prefetch);
  if (t.band)
    return banded_matmul(p, [&](int64_t lane) { return kSide == Lanes::queries ? keys_of(t.band, lane) : queries_of(t.band, lane); });
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
