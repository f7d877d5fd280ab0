// A decode step: one query a head. The cache is read as stored, once, straight into registers: keys for dot products, with the keys as
// lanes (weft/tile/cpu/line_dots.h), then values for weighted sums, with D as lanes. A position's heads are side by side in memory, so
// they are the inner loop.

#if defined(WEFT_OPS_KV_ATTENTION_CPU_DECODE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_KV_ATTENTION_CPU_DECODE_H_
#undef WEFT_OPS_KV_ATTENTION_CPU_DECODE_H_
#else
#define WEFT_OPS_KV_ATTENTION_CPU_DECODE_H_
#endif

#include <utility>

#include "weft/ops/kv_attention/cpu/work.h"
#include "weft/tile/cpu/line_dots.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// How the lines of keys are multiplied; AMX takes the lanes of prompt.h.
template <class In>
struct DotsOf {
  using Type = void;
};
template <>
struct DotsOf<InFloats<float>> {
  using Type = FloatDots;
};
template <>
struct DotsOf<InFloats<bf16>> {
  using Type = WidenedDots;
};
template <>
struct DotsOf<InPairs<EmulatedDot>> {
  using Type = EmulatedPairDots;
};
#if WEFT_HAS_DOT
template <>
struct DotsOf<InPairs<HardwareDot>> {
  using Type = PairDots;
};
#endif

constexpr int64_t kDecodeRows = 8;  // queries of a key head, at most
constexpr int64_t kTilesOfSegment = kSegment / kKeyTile;

template <class In>
class Decode {
  using T = typename In::T;
  using Step = typename In::Step;
  using Dots = typename DotsOf<In>::Type;

 public:
  static constexpr bool kWords = Step::kElements == 2;  // p is rounded to bf16 and multiplied in pairs

  Decode(const Work& w, const KvAttentionArgs& a)
      : w_(w),
        a_(a),
        q_(heads<T>(a.q)),
        k_(cached_heads<T>(a.k_cache, a.pages)),
        v_(cached_heads<T>(a.v_cache, a.pages)),
        heads_(ceil_div(w.H, kBlock) * kBlock) {}

  static bool applies(const Work& w) { return w.Tq == 1 && w.group <= kDecodeRows && w.D % kBlock == 0; }

  int64_t floats() const { return w_.H * w_.D + heads_ * kSegment + heads_ * kTilesOfSegment + w_.H * kSegment / 2; }
  int64_t sums_floats() const { return ceil_div(w_.H * w_.D, kBlock) * kBlock + 2 * heads_; }  // o [H][D], m and l [H] of a segment

  // Attends to positions [begin, end) of one sequence and segment, for every head. begin is the start of a tile; a window masks the first
  // `hidden` positions.
  void run(int64_t b, int64_t begin, int64_t end, int64_t hidden, ScratchSlots::Lease& lease, float* sums) const {
    float *x = lease.take(w_.H * w_.D), *p = lease.take(heads_ * kSegment), *factors = lease.take(heads_ * kTilesOfSegment);
    bf16* rounded = reinterpret_cast<bf16*>(lease.take(w_.H * kSegment / 2));
    for (int64_t h = 0; h < w_.H; ++h) copy_query(q_.row(b, 0, h), x + h * w_.D);
    scores(b, begin, end, x, p);
    for (int64_t h = 0; h < w_.H; ++h) {
      const float scale = apply_rule(end - begin, hidden, p + h * kSegment);
      weights(end - begin, hidden, h, scale, p + h * kSegment, factors, m(sums), rounded + h * kSegment);
    }
    row_sums(end - begin, p, factors, l(sums));
    std::fill_n(sums, w_.H * w_.D, 0.0f);
    for (int64_t j = begin + hidden / kBlock * kBlock; j < end; j += kBlock)  // before this the sums are 0, so their factors do not matter
      for (int64_t hk = 0; hk < w_.Hkv; ++hk) {
        const int64_t h = hk * w_.group, at = j - begin;
        const float* weights = kWords ? reinterpret_cast<const float*>(rounded + h * kSegment + at) : p + h * kSegment + at;
        add_values<4>({weights, at % kKeyTile == 0 ? factors + at / kKeyTile * heads_ + h : nullptr, v_.row(b, j, hk),
                       std::max<int64_t>(0, hidden - at), std::min<int64_t>(kBlock, end - j), sums + h * w_.D},
                      w_.group);
      }
  }
  // Merges `count` segments of one sequence, sums_floats() apart, and stores o.
  void finish(int64_t b, int64_t count, float* sums) const {
    const Heads<T> o = heads<T>(a_.o);
    for (int64_t h = 0; h < w_.H; ++h) {
      for (int64_t i = 1; i < count; ++i) merge(sums, sums + i * sums_floats(), h);
      store_output(sums + h * w_.D, l(sums)[h], w_.D, o.row(b, 0, h));
    }
    if (!a_.lse) return;
    float* const lse = data<float>(a_.lse) + b * w_.H;
    const float *m_of = m(sums), *l_of = l(sums);
    for_each_block(w_.H, [=](At at) HWY_ATTR { at.store(at.load(m_of) + log(at.load(l_of)), lse); });
  }

 private:
  float* m(float* sums) const { return sums + ceil_div(w_.H * w_.D, kBlock) * kBlock; }
  float* l(float* sums) const { return m(sums) + heads_; }

  // As Dots multiplies it: f32, or words.
  void copy_query(const T* from, float* x) const {
    if constexpr (kWords)
      std::memcpy(x, from, size_t(w_.D) * sizeof(T));
    else
      for_each_block(w_.D, [=](At at) HWY_ATTR { at.store(at.load(from), x); });
  }

  // p[h][j] = q_h . k_j, of kDotGroup keys at a time; the next ones are prefetched as they lie in memory, then the first values.
  void scores(int64_t b, int64_t begin, int64_t end, const float* x, float* p) const {
    for (int64_t h = 0; h < heads_; ++h) std::fill_n(p + h * kSegment, ceil_div(end - begin, kKeyTile) * kKeyTile, 0.0f);
    for (int64_t j = begin; j < end; j += kDotGroup)
      for (int64_t hk = 0; hk < w_.Hkv; ++hk) {
        const CachedHeads<const T>& next = j + kDotGroup < end ? k_ : v_;
        const int64_t position = j + kDotGroup < end ? j + kDotGroup : begin;
        const T* ahead = next.time == w_.D ? next.row(b, position, hk) : next.row(b, position, 0) + hk * kDotGroup * w_.D;
        const T* lines = k_.row(b, j, hk);
        for (int64_t r = 0; r < w_.group; r += 4)
          multiply(lines, std::min<int64_t>(kDotGroup, end - j), x + (hk * w_.group + r) * w_.D, std::min<int64_t>(4, w_.group - r),
                   p + (hk * w_.group + r) * kSegment + j - begin, reinterpret_cast<const char*>(r == 0 ? ahead : lines));
      }
  }
  void multiply(const T* lines, int64_t count, const float* x, int64_t rows, float* p, const char* ahead) const {
    const char* at = reinterpret_cast<const char*>(lines);
    const int64_t step = k_.time * int64_t(sizeof(T));
    const auto multiply = [&]<int kRows>() HWY_ATTR {
      const auto next = [=](int64_t done) { return ahead + kDotGroup * done; };
      if (count == kDotGroup) return dot_group<Dots, kRows>(Lines{at, step}, w_.D, x, w_.D, p, kSegment, next);
      dot_group<Dots, kRows>(FewLines{at, step, count - 1}, w_.D, x, w_.D, p, kSegment, next);
    };
    switch (rows) {
      case 1: return multiply.template operator()<1>();
      case 2: return multiply.template operator()<2>();
      case 3: return multiply.template operator()<3>();
      default: return multiply.template operator()<4>();
    }
  }

  // Applies the soft cap, and sets masked scores to -inf. Returns the scale that weights() has to apply.
  float apply_rule(int64_t count, int64_t hidden, float* p) const {
    if (w_.rule.soft_cap == 0 && hidden == 0) return w_.rule.scale;
    const F32x16 cap = splat(w_.rule.soft_cap), inverse = splat(1 / w_.rule.soft_cap), scale = splat(w_.rule.scale);
    for (int64_t j = 0; j < count; j += kBlock) {
      const F32x16 scaled = load(p + j) * scale;
      store(w_.rule.soft_cap > 0 ? cap * tanh(scaled * inverse) : scaled, p + j);
    }
    std::fill_n(p, hidden, -HUGE_VALF);
    return 1;
  }

  // Turns the scores of a head into p; masked positions and padding to a whole tile are 0. rounded: p in bf16. factors[tile][head].
  void weights(int64_t count, int64_t hidden, int64_t h, float score_scale, float* p, float* factors, float* most, bf16* rounded) const {
    float m = -HUGE_VALF;
    const F32x16 scale = splat(score_scale);
    for (int64_t j = 0; j < count; j += kKeyTile, p += kKeyTile, rounded += kKeyTile) {
      const int64_t keys = std::min(kKeyTile, count - j);
      const float largest = row_max_number(keys, [&](At at) HWY_ATTR { return at.load(p) * scale; });
      const float before = std::exchange(m, m < largest ? largest : m), base = m == -HUGE_VALF ? 0.0f : m;
      factors[j / kKeyTile * heads_ + h] = exp(before - base);
      for (int64_t i = 0; i < kKeyTile; i += kBlock) {
        F32x16 weight = i < keys ? exp_of_negative(load(p + i) * scale - splat(base)) : zero();
        if (keys - i < kBlock && i < keys) weight = first_n(keys - i, weight, zero());
        if (j + i < hidden) weight = first_n(hidden - i, zero(), weight);
        store(weight, p + i);
        if constexpr (kWords) store(weight, rounded + i);
      }
    }
    most[h] = m;
  }

  // l[h] = l factor, then + p_j in order, for every head: the heads are the lanes.
  void row_sums(int64_t count, const float* p, const float* factors, float* l) const {
    for (int64_t h = 0; h < w_.H; h += kLanes) {
      V sum = hn::Zero(D());
      const Lines lines{reinterpret_cast<const char*>(p + h * kSegment), kSegment * int64_t(sizeof(float))};
      for (int64_t j = 0; j < count; j += kBlock) {
        if (j % kKeyTile == 0) sum = hn::Mul(sum, hn::LoadU(D(), factors + j / kKeyTile * heads_ + h));
        for_each_word(lines, 0, j * int64_t(sizeof(float)),
                      [&](int, V word) HWY_ATTR __attribute__((always_inline)) { sum = hn::Add(sum, word); });
      }
      hn::StoreU(sum, D(), l + h);
    }
  }

  // Up to sixteen positions for the queries of a key head.
  struct Values {
    const float* p;        // [query], kSegment apart; or words, half as far
    const float* factors;  // of earlier sums, where a tile begins; else null
    const T* v;
    int64_t hidden, count;  // positions masked by the window; all positions
    float* o;               // [query][D]
  };

  template <int kR>
  void add_values(const Values& t, int64_t rows) const {
    int64_t r = 0;
    const auto from = [&](int64_t row) {
      return Values{
          t.p + row * (kWords ? kSegment / 2 : kSegment), t.factors ? t.factors + row : nullptr, t.v, t.hidden, t.count, t.o + row * w_.D};
    };
    for (; r + kR <= rows; r += kR) r == 0 ? add_rows<kR, true>(t) : add_rows<kR, false>(from(r));
    if constexpr (kR > 1)
      if (r < rows) add_values<kR - 1>(from(r), rows - r);
  }
  template <int kR, bool kFetch>
  void add_rows(const Values& t) const {
    constexpr int kB = kParts == 1 ? 4 : 1;
    int64_t d = 0;
    if (w_.D >= kB * kBlock) add_blocks<kR, kB, kFetch>(t, 0), d = kB * kBlock;
    for (; d + kB * kBlock <= w_.D; d += kB * kBlock) add_blocks<kR, kB, false>(t, d);
    for (; d < w_.D; d += kBlock) add_blocks<kR, 1, false>(t, d);
  }
  // o[r][.] of kB blocks from d on; the first of them prefetches whole rows sixteen positions ahead.
  template <int kR, int kB, bool kFetch>
  HWY_INLINE void add_blocks(const Values& t, int64_t d) const {
    constexpr int64_t kKeys = Step::kElements, kRow = kWords ? kSegment / 2 : kSegment;
    F32x16 sum[kR][kB];
    for (int r = 0; r < kR; ++r)
      for (int i = 0; i < kB; ++i) {
        sum[r][i] = load(t.o + r * w_.D + d + i * kBlock);
        if (t.factors) sum[r][i] = sum[r][i] * splat(t.factors[r]);
      }
    const int64_t first = t.hidden / kKeys * kKeys;
    const T* v = t.v + first * v_.time + d;
    for (int64_t j = first; j < t.count; j += kKeys, v += kKeys * v_.time) {
      if (kFetch) prefetch_rows(v + kBlock * v_.time, v_.time, kKeys, w_.D);
      F32x16 value[kB];
      for (int i = 0; i < kB; ++i) value[i] = words(v + i * kBlock, j + 1 < t.count);
      if constexpr (kWords)
        if (j < t.hidden)  // the first of the two is masked: zero times NaN or infinity would be NaN
          for (int i = 0; i < kB; ++i) value[i] = Step::odd_only(value[i]);
      for (int r = 0; r < kR; ++r) {
        const F32x16 weight = splat(t.p[r * kRow + j / kKeys]);
        for (int i = 0; i < kB; ++i) sum[r][i] = Step::add(weight, value[i], sum[r][i]);
      }
    }
    for (int r = 0; r < kR; ++r)
      for (int i = 0; i < kB; ++i) store(sum[r][i], t.o + r * w_.D + d + i * kBlock);
  }
  // Elements, or words of two positions, the second zero if it is not there.
  HWY_INLINE F32x16 words(const T* v, [[maybe_unused]] bool two) const {
    if constexpr (!kWords)
      return load(v);
    else {
      F32x16 pair;
      for (int i = 0; i < kParts; ++i) pair.part[i] = PairedWords::across(v + i * kLanes, v_.time, two ? 2 : 1);
      return pair;
    }
  }

  // SegmentSums::merge for one head.
  void merge(float* into, float* next, int64_t h) const {
    float &most = m(into)[h], &sum = l(into)[h];
    const float largest = most < m(next)[h] ? m(next)[h] : most, base = largest == -HUGE_VALF ? 0.0f : largest;
    const float keep = exp(most - base), take = exp(m(next)[h] - base);
    sum = sum * keep + l(next)[h] * take;
    most = largest;
    for (int64_t d = h * w_.D; d < (h + 1) * w_.D; d += kBlock)
      store(fma(load(next + d), splat(take), load(into + d) * splat(keep)), into + d);
  }

  const Work& w_;
  const KvAttentionArgs& a_;
  const Heads<const T> q_;
  const CachedHeads<const T> k_, v_;
  const int64_t heads_;  // H, in whole blocks
};

// Equation: o = sum over j of softmax(s)_j v_j, s_j = scale q . k_j (or its soft cap); j <= start and within the window.
// Layout:   q, o [B, 1, H, D] and k_cache, v_cache [B, capacity, Hkv, D] or paged, with unit stride over D; start [B].
// Order:    weft/tile/cpu/order.h's. Tasks are (b, segment), all heads.
// Requires: Decode::applies(); 0 <= start < capacity.
// Traffic:  the used part of the cache once.
template <class In>
void attend_decode(Stream& stream, const Work& w, const KvAttentionArgs& a) {
  const Decode<In> decode(w, a);
  const Scratch<float> all(stream, w.B * w.segments * decode.sums_floats());
  const auto sums = [&](int64_t task) { return all.data() + task * decode.sums_floats(); };
  ScratchSlots slots(stream, decode.floats(), w.B * w.segments);
  parallel_for(w.B * w.segments, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task / w.segments, segment = task % w.segments * kSegment, end = data<int32_t>(a.start)[b] + 1;
    const int64_t begin = std::max(segment, w.rule.first_key(end - 1)), hidden = std::max<int64_t>(0, end - w.rule.window - begin);
    if (begin >= std::min(end, segment + kSegment)) return;
    ScratchSlots::Lease lease(slots);
    decode.run(b, begin, std::min(end, segment + kSegment), hidden, lease, sums(task));
  });
  const bool alone = w.B * w.H * w.segments < 256;  // less work than starting a second set of tasks
  parallel_for(w.B, alone ? 1 : threads(stream), [&](int64_t b) HWY_ATTR {
    const int64_t last = data<int32_t>(a.start)[b], first = w.rule.first_key(last) / kSegment;
    decode.finish(b, last / kSegment + 1 - first, sums(b * w.segments + first));
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
