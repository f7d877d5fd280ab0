// Shared by the kernels of kv_attention: the queries that attend to one key head, and tasks by segment of the cache.

#if defined(WEFT_OPS_KV_ATTENTION_CPU_WORK_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_KV_ATTENTION_CPU_WORK_H_
#undef WEFT_OPS_KV_ATTENTION_CPU_WORK_H_
#else
#define WEFT_OPS_KV_ATTENTION_CPU_WORK_H_
#endif

#include "weft/ops/causal_attention/cpu/online_softmax.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/tile/cpu/heads.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Rows are the queries that share a key head, Tq tokens by H / Hkv heads, in blocks of 64. If they are one block (decode, short prompts)
// there are few tasks, so the segments of the cache are tasks, too; a long prompt has blocks enough.
struct Work {
  int64_t B, Tq, H, Hkv, D, group, rows, blocks, segments;
  ScoreRule rule;

  explicit Work(const KvAttentionArgs& a)
      : B(a.q.shape[0]),
        Tq(a.q.shape[1]),
        H(a.q.shape[2]),
        Hkv(a.k_cache.shape[2]),
        D(a.q.shape[3]),
        group(H / Hkv),
        rows(Tq * group),
        blocks(ceil_div(rows, kTile)),
        rule(a.scale, a.soft_cap, a.window, kv_capacity(a.k_cache, a.pages)) {
    int64_t longest = 0;
    for (int64_t b = 0; b < B; ++b) longest = std::max(longest, data<int32_t>(a.start)[b] + Tq);
    segments = ceil_div(longest, kSegment);
  }
};

// The rows of one block and how many positions each attends to.
struct Queries {
  int64_t b, hk, first, count;
  int64_t start, group;

  Queries(const Work& w, const KvAttentionArgs& a, int64_t b, int64_t hk, int64_t block)
      : b(b), hk(hk), first(block * kTile), count(std::min(kTile, w.rows - first)), start(data<int32_t>(a.start)[b]), group(w.group) {}
  int64_t token(int64_t r) const { return (first + r) / group; }
  int64_t head(int64_t r) const { return hk * group + (first + r) % group; }
  int64_t end() const { return start + token(count - 1) + 1; }  // number of positions that the last query attends to
  int64_t first_position() const { return start + token(0); }   // position of the first query
  Seen seen(int64_t j0) const { return {j0 - start, group, first}; }
};

template <class T>
void store_queries(const Work& w, const KvAttentionArgs& a, const Queries& q, const SegmentSums& sums, int64_t width) {
  const Heads<T> o = heads<T>(a.o);
  for (int64_t r = 0; r < q.count; ++r) store_output(sums.o + r * width, sums.l[r], w.D, o.row(q.b, q.token(r), q.head(r)));
  if (!a.lse) return;
  float lse[kTile];
  for_each_block(q.count, [&](At at) HWY_ATTR { at.store(at.load(sums.m) + log(at.load(sums.l)), lse); });
  for (int64_t r = 0; r < q.count; ++r) data<float>(a.lse)[(q.b * w.H + q.head(r)) * w.Tq + q.token(r)] = lse[r];
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
