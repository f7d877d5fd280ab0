// Prompts, and decode steps that decode.h does not take: the queries are the lanes, as in causal_attention, and a tile of the cache is
// read once for all queries that share its head.

#if defined(WEFT_OPS_KV_ATTENTION_CPU_PROMPT_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_KV_ATTENTION_CPU_PROMPT_H_
#undef WEFT_OPS_KV_ATTENTION_CPU_PROMPT_H_
#else
#define WEFT_OPS_KV_ATTENTION_CPU_PROMPT_H_
#endif

#include "weft/ops/kv_attention/cpu/work.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class In>
class Prompt {
  using T = typename In::T;
  using Step = typename In::Step;

 public:
  Prompt(const Work& w, const KvAttentionArgs& a) : w_(w), a_(a), s_(a.q, a.k_cache, In::kGrain) {}

  int64_t width() const { return s_.width(); }
  // Of a task: queries, their lanes, keys, values, scores, factors; and two sums.
  int64_t floats() const { return 5 * s_.tile() + kTile * kTile + kTile + 2 * SegmentSums::floats(width()); }

  // All segments of the rows' positions, merged in order.
  void run(const Queries& rows, ScratchSlots::Lease& lease) const {
    SegmentSums now(lease.take(SegmentSums::floats(width())), width()), before(lease.take(SegmentSums::floats(width())), width());
    const Tiles tiles = load(rows, lease);
    const int64_t first = first_segment(rows);
    for (int64_t begin = first; begin < rows.end(); begin += kSegment) {
      segment(rows, tiles, begin, now);
      if (begin == first)
        std::swap(now, before);
      else
        before.merge(now, width(), rows.count);
    }
    store_queries<T>(w_, a_, rows, before, width());
  }
  // The segment from `begin` on.
  void run(const Queries& rows, int64_t begin, const SegmentSums& sums, ScratchSlots::Lease& lease) const {
    segment(rows, load(rows, lease), begin, sums);
  }
  // Start of the first segment that any of the rows attends to.
  int64_t first_segment(const Queries& rows) const { return w_.rule.first_key(rows.first_position()) / kSegment * kSegment; }

 private:
  struct Tiles {
    float *qt, *k, *v, *scores, *rescale;
  };

  Tiles load(const Queries& rows, ScratchSlots::Lease& lease) const {
    const Tiles t{lease.take(s_.tile()), lease.take(s_.tile()), lease.take(s_.tile()), lease.take(kTile * kTile), lease.take(kTile)};
    T* q = reinterpret_cast<T*>(lease.take(s_.tile()));
    const Heads<const T> from = heads<T>(a_.q);
    for (int64_t r = 0; r < rows.count; ++r)
      std::memcpy(q + r * w_.D, from.row(rows.b, rows.token(r), rows.head(r)), size_t(w_.D) * sizeof(T));
    In::lanes(s_, {q, w_.D, rows.count}, 1, lease.take(s_.tile()), t.qt);
    return t;
  }

  void segment(const Queries& rows, const Tiles& t, int64_t begin, const SegmentSums& sums) const {
    const CachedHeads<const T> k = cached_heads<T>(a_.k_cache, a_.pages), v = cached_heads<T>(a_.v_cache, a_.pages);
    const int64_t end = std::min(begin + kSegment, rows.end());
    const typename In::Unit unit;
    sums.clear();
    std::fill_n(sums.o, rows.count * width(), 0.0f);
    PrefetchQueue prefetch;
    for (int64_t j0 = std::max(begin, w_.rule.first_key(rows.first_position())); j0 < end; j0 += kTile) {
      const int64_t keys = std::min(kTile, end - j0), next = std::min(kTile, end - j0 - kTile);
      prefetch.clear();
      if (next > 0) {
        prefetch.add(k.row(rows.b, j0 + kTile, rows.hk), k.time, next, w_.D);
        prefetch.add(v.row(rows.b, j0 + kTile, rows.hk), v.time, next, w_.D);
      }
      prefetch.spread(2 * kSteps);
      attend(rows, t, j0, keys, In::left(s_, {k.row(rows.b, j0, rows.hk), k.time, keys}, t.k),
             In::right(s_, {v.row(rows.b, j0, rows.hk), v.time, keys}, t.v), sums, prefetch);
    }
  }

  void attend(const Queries& rows, const Tiles& t, int64_t j0, int64_t keys, const TileRows& k, const TileRows& v, const SegmentSums& sums,
              PrefetchQueue& prefetch) const {
    const Scores tile{keys, padded(rows.count), false};
    const Seen causal = rows.seen(j0);
    const SeenInWindow seen{causal, w_.rule.window};
    const bool cut = rows.end() - 1 - j0 >= w_.rule.window, all_seen = !cut && causal.rows(0, keys) == keys;
    matmul_of_rows<Lanes::queries, Step>(tile, s_, k, t.qt, t.scores, prefetch);
    if (w_.rule.soft_cap > 0) cap_scores(tile, w_.rule, t.scores);
    const float scale = w_.rule.soft_cap > 0 ? 1 : w_.rule.scale;
    for (int64_t lane = 0; lane < tile.lanes; lane += kBlock)
      if (cut)
        online_softmax<In, 1>(lane, keys, seen, scale, t.scores, sums.m, sums.l, t.rescale);
      else
        online_softmax<In, 1>(lane, keys, all_seen ? kAllSeen : causal, scale, t.scores, sums.m, sums.l, t.rescale);
    const auto p = weighted_rows<Step>(tile, s_, t.scores, v, rows.count, {.add = true, .factor = t.rescale}, sums.o, prefetch);
    if (all_seen)
      tile_matmul<Step>(p);
    else
      banded_matmul(p, [&](int64_t lane) { return seen.keys(lane, keys); });
  }

  const Work& w_;
  const KvAttentionArgs& a_;
  const Sizes s_;
};

// Equation: o_i = sum over j of softmax(s_i)_j v_j, s_ij = scale q_i . k_j (or its soft cap); j <= start + i and within its window.
// Layout:   q, o [B, Tq, H, D] and k_cache, v_cache [B, capacity, Hkv, D] or paged, with unit stride over D; start [B].
// Order:    weft/tile/cpu/order.h's. Tasks are (b, key head, block of rows), and segments if there is one block.
// Requires: 0 <= start <= capacity - Tq.
// Traffic:  the used part of the cache once per block of 64 rows; q and o once.
template <class In>
void attend_prompt(Stream& stream, const Work& w, const KvAttentionArgs& a) {
  const Prompt<In> prompt(w, a);
  if (w.blocks > 1 || w.segments == 1) {
    const int64_t tasks = w.B * w.Hkv * w.blocks;
    ScratchSlots slots(stream, prompt.floats(), tasks);
    parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {  // the longest first
      const Queries rows(w, a, task / w.Hkv % w.B, task % w.Hkv, w.blocks - 1 - task / w.Hkv / w.B);
      ScratchSlots::Lease lease(slots);
      prompt.run(rows, lease);
    });
    return;
  }
  const int64_t tasks = w.B * w.Hkv * w.segments, floats = SegmentSums::floats(prompt.width());
  ScratchSlots slots(stream, prompt.floats(), tasks);
  const Scratch<float> all(stream, tasks * floats);
  const auto sums = [&](int64_t task) { return SegmentSums(all.data() + task * floats, prompt.width()); };
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const Queries rows(w, a, task / w.segments / w.Hkv, task / w.segments % w.Hkv, 0);
    const int64_t begin = task % w.segments * kSegment;
    if (begin < prompt.first_segment(rows) || begin >= rows.end()) return;
    ScratchSlots::Lease lease(slots);
    prompt.run(rows, begin, sums(task), lease);
  });
  parallel_for(w.B * w.Hkv, threads(stream), [&](int64_t pair) HWY_ATTR {
    const Queries rows(w, a, pair / w.Hkv, pair % w.Hkv, 0);
    const int64_t first = prompt.first_segment(rows) / kSegment;
    const SegmentSums total = sums(pair * w.segments + first);
    for (int64_t i = first + 1; i * kSegment < rows.end(); ++i) total.merge(sums(pair * w.segments + i), prompt.width(), rows.count);
    store_queries<typename In::T>(w, a, rows, total, prompt.width());
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
