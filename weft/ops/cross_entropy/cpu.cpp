#include <bit>

#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/cross_entropy/digest_term.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/cross_entropy/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 1024;  // elements: 4 KiB as f32, so a tile is read twice from the first cache

// max(x) and sum(exp(x - max)) of a row.
struct ExpSum {
  float max = -HUGE_VALF, sum = 0;
};

// One pass over memory: the maximum and then the sum of a tile that stays in the first-level cache, the sum so far
// scaled whenever the maximum grows. (Per element it would take two exponentials.) Tiles in order, each in row_sum's
// tree. While all is -infinity there is nothing to add; a NaN or +infinity makes the sum NaN.
// Keeps e[j] = exp(x[j] - m[tile of j]), m the maximum up to and with the tile, unless e is null.
template <class T>
ExpSum exp_sum(const T* row, int64_t n, float* e, float* m) {
  ExpSum r;
  for (int64_t start = 0; start < n; start += kTile) {
    const int64_t length = std::min(kTile, n - start);
    const T *tile = row + start, *next = start + 2 * kTile <= n ? tile + kTile : tile;
    const float largest = row_max_number(length, [&](At at) HWY_ATTR { return at.load(tile); }), before = r.max;
    if (largest != largest || before < largest) r.max = largest;
    if (e) m[start / kTile] = r.max;
    const F32x16 base = splat(r.max == -HUGE_VALF ? 0.0f : r.max);
    const float sum = row_sum(length, [&](At at) HWY_ATTR {
      at.prefetch(next);
      const F32x16 v = exp_of_negative(at.load(tile) - base);
      if (e) at.store(v, e + start);
      return v;
    });
    r.sum = (before == r.max ? r.sum : r.sum * exp(before - r.max)) + sum;
  }
  return r;
}

template <class T>
uint32_t digest(const T* row, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  uint32_t sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += digest_term(std::bit_cast<Bits>(row[j]), uint32_t(j));
  return sum;
}

// The outputs of one row that are wanted beside the loss.
struct RowOutputs {
  float *losses, *maxima, *log_sums;
  uint32_t* digests;

  void put(int64_t r, float loss, float max, float log_sum, uint32_t digest) const {
    losses[r] = loss;
    if (maxima) maxima[r] = max;
    if (log_sums) log_sums[r] = log_sum;
    if (digests) digests[r] = digest;
  }
};

// The number of targets that are not padding; -1, and a report, when one is out of range.
template <class Id>
int64_t count_targets(Stream& stream, const CrossEntropyArgs& a, int64_t V) {
  int64_t count = 0;
  for (int64_t i = 0; i < a.targets.numel(); ++i) {
    const int64_t id = data<Id>(a.targets)[i];
    if (a.pad_id != -1 && id == a.pad_id) continue;
    if (id < 0 || id >= V) {
      stream.report(join("target ", id, " at position ", i, " is out of range [0, ", V, ")"));
      return -1;
    }
    ++count;
  }
  return count;
}

// Equation: loss = sum over rows (m - x_t + log s) / count, s = sum(exp(x - m)); dlogits = (exp(x - m) / s - [j = t]) / count.
// Layout:   logits, dlogits [N, V] with a row stride each (dlogits may be logits), targets and the outputs of rows [N], loss, count
//           scalars.
// Order:    rows are independent tasks; s by exp_sum's tiles in order; the rows' losses follow row_sum's fixed tree.
// Requires: unit stride within a row (the contract's), targets in range or padding: else reported, nothing written.
// Traffic:  one read of logits from memory; a row of exponentials in the second cache; one write of dlogits, past the
//           caches when they do not hold it; targets twice.
template <class T, class G, class Id>
void run(Stream& stream, const CrossEntropyArgs& a) {
  const Rows x = as_rows(a.logits, a.kOp, "logits"), dx = a.dlogits ? as_rows(a.dlogits, a.kOp, "dlogits") : Rows{};
  const int64_t N = x.rows, V = x.columns, targets = count_targets<Id>(stream, a, V);
  if (targets < 0) return;
  const float count = a.count ? *data<float>(a.count) : float(targets), over_count = 1.0f / count;
  const Scratch<float> scratch(stream, a.losses ? 0 : N);
  const RowOutputs outputs{a.losses ? data<float>(a.losses) : scratch.data(), data<float>(a.maxima), data<float>(a.log_sums),
                           data<uint32_t>(a.digests)};
  const bool non_temporal = a.dlogits && stores_non_temporally(N * V * int64_t(sizeof(T) + sizeof(G)), a.dlogits, dx.stride);
  const int64_t tiles = ceil_div(V, kTile);
  ScratchSlots slots(stream, a.dlogits ? tiles * (kTile + 16) : 0, N);
  for_each_row_group(stream, N, V, [&](int64_t first, int64_t last) HWY_ATTR {
    ScratchSlots::Lease lease(slots);
    float *e = a.dlogits ? lease.take(tiles * kTile) : nullptr, *m = a.dlogits ? lease.take(tiles) : nullptr;
    for (int64_t r = first; r < last; ++r) {
      const T* row = data<T>(a.logits) + r * x.stride;
      G* out = a.dlogits ? data<G>(a.dlogits) + r * dx.stride : nullptr;
      const int64_t target = data<Id>(a.targets)[r];
      if (a.pad_id != -1 && target == a.pad_id) {
        outputs.put(r, 0, 0, 0, 0);
        if (out) for_each_block(V, [&](At at) HWY_ATTR { at.put(zero(), out, non_temporal); });
        continue;
      }
      const ExpSum total = exp_sum(row, V, e, m);
      const float at_target = float(row[target]);  // before an in-place gradient overwrites it
      const float log_sum = log(total.sum);
      outputs.put(r, (total.max - at_target) + log_sum, total.max, log_sum, a.digests ? digest(row, V) : 0);
      if (!out) continue;
      const float factor = over_count / total.sum;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t start = tile * kTile;
        const F32x16 f = splat(exp(m[tile] - total.max) * factor);
        for_each_block(std::min(kTile, V - start), [&](At at) HWY_ATTR { at.put(at.load(e + start) * f, out + start, non_temporal); });
      }
      if (non_temporal) hwy::FlushStream();  // before the target's element is written again
      out[target] = G(exp(at_target - total.max) * factor - over_count);
    }
  });
  const float sum = row_sum(N, [&](At at) HWY_ATTR { return at.load(outputs.losses); });
  const float loss = targets ? sum / count : 0.0f;
  float* to = data<float>(a.loss);
  *to = a.accumulate ? *to + loss : loss;
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  dispatch<float, bf16>(args.logits.dtype, [&]<class T>() {
    dispatch<int32_t, uint32_t>(args.targets.dtype, [&]<class Id>() {
      args.dlogits&& args.dlogits.dtype == DType::bf16 ? run<T, bf16, Id>(stream, args) : run<T, T, Id>(stream, args);
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(cross_entropy, CrossEntropyArgs)
#endif
