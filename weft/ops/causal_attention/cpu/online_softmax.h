// Online softmax with the queries as lanes, in the order of weft/tile/cpu/order.h: tiles of 64 keys, and segments that are merged.
// causal_attention and the prompts of kv_attention share it.

#if defined(WEFT_OPS_CAUSAL_ATTENTION_ONLINE_SOFTMAX_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_CAUSAL_ATTENTION_ONLINE_SOFTMAX_H_
#undef WEFT_OPS_CAUSAL_ATTENTION_ONLINE_SOFTMAX_H_
#else
#define WEFT_OPS_CAUSAL_ATTENTION_ONLINE_SOFTMAX_H_
#endif

#include "weft/ops/causal_attention/cpu/scores.h"
#include "weft/tile/cpu/order.h"
#include "weft/tile/cpu/scratch_slots.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

static_assert(kTile == kKeyTile && kSegment % kKeyTile == 0);

// The keys of a tile that each lane attends to: row r is attended to by the lanes from (r + shift) group - first on. Lanes are tokens
// (group = 1) or the heads of tokens side by side; `first` is the number of lane 0 among those of the sequence's new tokens.
struct Seen {
  int64_t shift, group = 1, first = 0;

  int64_t first_lane(int64_t r) const { return (r + shift) * group - first; }
  // Rows that `lane` attends to, if the tile has `rows`.
  int64_t rows(int64_t lane, int64_t rows) const { return std::clamp<int64_t>((lane + first) / group - shift + 1, 0, rows); }
};

// The same with a window: the lanes of `window` tokens attend to a row.
struct SeenInWindow {
  Seen causal;
  int64_t window;

  int64_t first_lane(int64_t r) const { return causal.first_lane(r); }
  int64_t last_lane(int64_t r) const { return causal.first_lane(r + window); }
  int64_t rows(int64_t, int64_t) const { return 0; }  // every row is masked
  Range keys(int64_t lane, int64_t rows) const {
    const int64_t last = (lane + causal.first) / causal.group - causal.shift + 1;
    return Range{last - window, last}.within(rows);
  }
};
inline constexpr Seen kAllSeen{-(int64_t(1) << 40)};

// The same for one token a lane and a window: row r is attended to by the lanes from r - ahead on, `window` of them.
struct SeenInBand {
  Band band;

  int64_t first_lane(int64_t r) const { return queries_of(band, r).first; }
  int64_t last_lane(int64_t r) const { return queries_of(band, r).last; }
  int64_t rows(int64_t, int64_t) const { return 0; }  // every row is masked
};

// Online softmax of kBlocks blocks of queries from `lane` on: scores become p relative to the new running maximum m (with pairs, words of
// two rows); l is the running sum of p before it is rounded, since lse belongs to the scores and not to the rounded weights. rescale is
// the factor for earlier sums.
template <class In, int kBlocks, class Mask>
void online_softmax(int64_t lane, int64_t rows, const Mask& seen, float scale, float* scores, float* m, float* l, float* rescale) {
  const F32x16 none = splat(-HUGE_VALF), number = lane_numbers();
  const int64_t full = seen.rows(lane, rows);  // rows that every lane attends to
  const auto score = [&](int64_t r, int j) HWY_ATTR { return load(scores + r * kTile + lane + j * kBlock) * splat(scale); };
  const auto where_seen = [&](int64_t r, F32x16 x, F32x16 otherwise) HWY_ATTR {
    if constexpr (requires { seen.last_lane(r); }) x = select(number < splat(float(seen.last_lane(r) - lane)), x, otherwise);
    return r < full ? x : select(number < splat(float(seen.first_lane(r) - lane)), otherwise, x);
  };
  F32x16 most[kBlocks], base[kBlocks], sum[kBlocks];
  for (int j = 0; j < kBlocks; ++j) most[j] = load(m + lane + j * kBlock);
  for (int64_t r = 0; r < rows; ++r)
    for (int j = 0; j < kBlocks; ++j) most[j] = larger(most[j], where_seen(r, score(r, j), none));  // a NaN is lost here, but not in its p
  for (int j = 0; j < kBlocks; ++j) {
    const int64_t at = lane + j * kBlock;
    base[j] = select(none < most[j], most[j], zero());  // all scores -inf so far: p = 0, not NaN
    const F32x16 factor = exp(load(m + at) - base[j]);
    sum[j] = load(l + at) * factor;
    store(most[j], m + at);
    store(factor, rescale + at);
  }
  const auto weight = [&](int64_t r, int j) HWY_ATTR {  // not exp(-inf): an underflow costs 100 cycles
    return where_seen(r, exp_of_negative(score(r, j) - base[j]), zero());
  };
  constexpr int kRows = In::Step::kElements;
  for (int64_t r = 0; r < rows; r += kRows)
    for (int j = 0; j < kBlocks; ++j) {
      F32x16 weights = weight(r, j);
      sum[j] = sum[j] + weights;
      if constexpr (kRows == 2) {
        const F32x16 odd = r + 1 < rows ? weight(r + 1, j) : zero();
        sum[j] = sum[j] + odd;
        weights = round_to_pairs(weights, odd);
      }
      store(weights, scores + r / kRows * kTile + lane + j * kBlock);
    }
  for (int j = 0; j < kBlocks; ++j) store(sum[j], l + lane + j * kBlock);
}

// Sums of up to 64 queries over one segment, or over several that were merged: o as rows [64][width], m and l [64].
struct SegmentSums {
  float *o, *m, *l;

  static int64_t floats(int64_t width) { return kTile * width + 2 * kTile; }
  SegmentSums() = default;
  SegmentSums(float* at, int64_t width) : o(at), m(at + kTile * width), l(m + kTile) {}

  void clear() const {
    std::fill_n(m, kTile, -HUGE_VALF);
    std::fill_n(l, kTile, 0.0f);
  }
  // Adds the segment that follows.
  void merge(const SegmentSums& next, int64_t width, int64_t count) const {
    alignas(64) float keep[kTile], take[kTile];
    for (int64_t r = 0; r < padded(count); r += kBlock) {
      const F32x16 most = larger(load(m + r), load(next.m + r)), none = splat(-HUGE_VALF), base = select(none < most, most, zero());
      const F32x16 of_this = exp(load(m + r) - base), of_next = exp(load(next.m + r) - base);
      store(load(l + r) * of_this + load(next.l + r) * of_next, l + r);
      store(most, m + r);
      store(of_this, keep + r);
      store(of_next, take + r);
    }
    for (int64_t r = 0; r < count; ++r)
      for (int64_t d = 0; d < width; d += kBlock) {
        float* sum = o + r * width + d;
        store(fma(load(next.o + r * width + d), splat(take[r]), load(sum) * splat(keep[r])), sum);
      }
  }
};

// o (1 / l), rounded to T. Adding zero makes -0 to +0.
template <class T>
void store_output(const float* o, float l, int64_t D, T* to) {
  const F32x16 factor = splat(1.0f / l);
  for_each_block(D, [=](At at) HWY_ATTR { at.store(load(o + at.i) * factor + zero(), to); });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
