#include "weft/ops/route/route.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/route/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kMost = RouteArgs::kMostExperts;

// The key by which logits are compared: a NaN counts as the largest.
float rank_of(float logit) { return logit != logit ? HUGE_VALF : logit; }

// Chooses the k largest of x, the lowest index among equals; writes ids in ascending order.
void choose(const float* x, int64_t E, int64_t k, int32_t* ids) {
  bool chosen[kMost] = {};
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < E; ++e)
      if (!chosen[e] && (best < 0 || rank_of(x[e]) > rank_of(x[best]))) best = e;
    chosen[best] = true;
  }
  for (int64_t e = 0, j = 0; e < E; ++e)
    if (chosen[e]) ids[j++] = int32_t(e);
}

// softmax(x[0..n)) in place; sums by row_sum's fixed tree.
void softmax_of(float* x, int64_t n) {
  const float most = row_max_number(n, [=](At at) HWY_ATTR { return at.load(x); });
  const F32x16 m = splat(most == -HUGE_VALF ? 0.0f : most);
  const float sum = row_sum(n, [=](At at) HWY_ATTR {
    const F32x16 e = exp_of_negative(at.load(x) - m);
    at.store(e, x);
    return e;
  });
  const F32x16 over_sum = splat(sum == 0 ? 0.0f : 1.0f / sum);
  for_each_block(n, [=](At at) HWY_ATTR { at.store(at.load(x) * over_sum, x); });
}

// p of the chosen experts [k], or of all experts [E].
template <class T>
int64_t probabilities(const T* logits, int64_t E, const int32_t* ids, int64_t k, bool of_chosen, float* p) {
  for_each_block(E, [=](At at) HWY_ATTR { at.store(at.load(logits), p); });
  for (int64_t j = 0; j < k && of_chosen; ++j) p[j] = p[ids[j]];  // ids[j] >= j
  softmax_of(p, of_chosen ? k : E);
  return of_chosen ? k : E;
}

// Equation: ids = the k largest of the logits, ascending; weights = their softmax, of all logits or of the chosen.
// Layout:   logits [R, E] with a row stride, ids and weights [R, k].
// Order:    rows are independent tasks; maximum and sum follow accumulate_blocks' fixed tree.
// Requires: 1 <= k <= E <= 1024 (the contract's).
// Traffic:  one read of logits, one write of ids and weights.
template <class T>
void forward(Stream& stream, const RouteArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits");
  const int64_t E = logits.columns, k = a.ids.shape.back();
  for_each_row_group(stream, logits.rows, E, [&](int64_t first, int64_t last) HWY_ATTR {
    alignas(64) float p[kMost];
    for (int64_t r = first; r < last; ++r) {
      const T* from = data<T>(a.logits) + r * logits.stride;
      int32_t* ids = data<int32_t>(a.ids) + r * k;
      for_each_block(E, [=, &p](At at) HWY_ATTR { at.store(at.load(from), p); });
      choose(p, E, k, ids);
      probabilities(from, E, ids, k, a.of_chosen, p);
      for (int64_t j = 0; j < k; ++j) data<float>(a.weights)[r * k + j] = p[a.of_chosen ? j : ids[j]];
    }
  });
}

bool in_range(int32_t id, int64_t E) { return 0 <= id && id < E; }

// Reports a fault for the first id outside [0, E).
void report_ids(Stream& stream, const View& ids, int64_t E) {
  parallel_for(1, 1, [&](int64_t) {  // as a task, which the counting device skips: it has no ids
    const int32_t *begin = data<int32_t>(ids), *end = begin + ids.numel();
    const int32_t* bad = std::find_if(begin, end, [=](int32_t id) { return !in_range(id, E); });
    if (bad != end) stream.report(join("id ", *bad, " at position ", bad - begin, " is out of range [0, ", E, ")"));
  });
}

// Equation: dlogits = p (g - s), s = sum(p g), g = dweights of the chosen experts.
// Layout:   logits, dlogits [R, E] with a row stride each, ids and dweights [R, k].
// Order:    rows are independent tasks; s takes the chosen experts in order.
// Requires: ids of the forward pass, in [0, E); otherwise the first invalid one is reported, and rows with invalid ids become zero.
// Traffic:  one read of logits and dweights, two of ids, one write of dlogits.
template <class T>
void backward(Stream& stream, const RouteBackwardArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits"), dlogits = as_rows(a.dlogits, a.kOp, "dlogits");
  const int64_t E = logits.columns, k = a.ids.shape.back();
  report_ids(stream, a.ids, E);
  for_each_row_group(stream, logits.rows, E, [&](int64_t first, int64_t last) HWY_ATTR {
    alignas(64) float p[kMost], d[kMost];
    for (int64_t r = first; r < last; ++r) {
      const int32_t* ids = data<int32_t>(a.ids) + r * k;
      const float* g = data<float>(a.dweights) + r * k;
      T* to = data<T>(a.dlogits) + r * dlogits.stride;
      if (!std::all_of(ids, ids + k, [=](int32_t id) { return in_range(id, E); })) {
        for_each_block(E, [=](At at) HWY_ATTR { at.store(splat(0), to); });
        continue;
      }
      probabilities(data<T>(a.logits) + r * logits.stride, E, ids, k, a.of_chosen, p);
      float s = 0;
      for (int64_t j = 0; j < k; ++j) s += p[a.of_chosen ? j : ids[j]] * g[j];
      for (int64_t e = 0; e < E; ++e) d[e] = a.of_chosen ? 0.0f : p[e] * -s;
      for (int64_t j = 0; j < k; ++j) d[ids[j]] = p[a.of_chosen ? j : ids[j]] * (g[j] - s);
      for_each_block(E, [=, &d](At at) HWY_ATTR { at.store(at.load(d), to); });
    }
  });
}

}  // namespace

void route(Stream& stream, const RouteArgs& args) {
  dispatch<float, bf16>(args.logits.dtype, [&]<class T>() { forward<T>(stream, args); });
}

void route_backward(Stream& stream, const RouteBackwardArgs& args) {
  dispatch<float, bf16>(args.logits.dtype, [&]<class T>() { backward<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(route, RouteArgs)
WEFT_CPU_KERNEL(route_backward, RouteBackwardArgs)
#endif
