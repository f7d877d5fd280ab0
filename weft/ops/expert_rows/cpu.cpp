#include "weft/ops/expert_rows/expert_rows.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/expert_rows/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Whether all places are in [0, rows); reports a fault for the first that is not.
bool in_range(Stream& stream, const View& places, int64_t rows) {
  const int32_t* place = data<int32_t>(places);
  bool valid = true;
  parallel_for(1, 1, [&](int64_t) {  // as a task, which the counting device skips: it has no places
    for (int64_t i = 0, n = places.numel(); i < n && valid; ++i) {
      valid = 0 <= place[i] && place[i] < rows;
      if (!valid) stream.report(join("id ", place[i], " at position ", i, " is out of range [0, ", rows, ")"));
    }
  });
  return valid;
}

// Equation: y[i] = w[p] x[p / k], p = rows[i].
// Layout:   x [T, C] and y [P, C] with a row stride each, rows [P], w [P] or none.
// Order:    no sums; tasks are groups of rows.
// Requires: rows in [0, P); otherwise reports a fault and writes nothing.
// Traffic:  one read of rows and w, one write of y; x once, then from cache.
template <class T>
void gather(Stream& stream, const ExpertRowsArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  if (y.rows == 0 || !in_range(stream, a.rows, y.rows)) return;
  const int64_t k = y.rows / x.rows;
  for_each_row_group(stream, y.rows, y.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      const int64_t p = data<int32_t>(a.rows)[i];
      const T* from = data<T>(a.x) + p / k * x.stride;
      T* to = data<T>(a.y) + i * y.stride;
      const F32x16 w = splat(a.weights ? data<float>(a.weights)[p] : 1.0f);
      for_each_block(y.columns, [=](At at) HWY_ATTR { at.store(at.load(from) * w, to); });
    }
  });
}

// Equation: y[t] = sum over j of w[t, j] x[places[t, j]].
// Layout:   x [P, C] and y [T, C] with a row stride each, places [T, k], w [T, k] or none.
// Order:    tasks are groups of tokens; j ascending, one fma each, from 0.
// Requires: places in [0, P); otherwise reports a fault and writes nothing.
// Traffic:  one read of x, places and w, one write of y.
template <class T>
void sum_rows(Stream& stream, const ExpertSumArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  if (!in_range(stream, a.places, x.rows)) return;
  const int64_t k = a.places.shape[1];
  for_each_row_group(stream, y.rows, k * y.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t t = first; t < last; ++t) {
      const int32_t* places = data<int32_t>(a.places) + t * k;
      const float* w = a.weights ? data<float>(a.weights) + t * k : nullptr;
      T* to = data<T>(a.y) + t * y.stride;
      for_each_block(y.columns, [=](At at) HWY_ATTR {
        F32x16 sum = zero();
        for (int64_t j = 0; j < k; ++j) sum = fma(splat(w ? w[j] : 1.0f), at.load(data<T>(a.x) + places[j] * x.stride), sum);
        at.store(sum, to);
      });
    }
  });
}

// Equation: d[t, j] = sum over c of dy[t, c] x[places[t, j], c].
// Layout:   dy [T, C] and x [P, C] with a row stride each, places and d [T, k].
// Order:    tasks are groups of tokens; a sum over a row follows row_sum's fixed tree.
// Requires: places in [0, P); otherwise reports a fault and writes nothing.
// Traffic:  one read of x, dy and places, one write of d.
template <class T>
void row_dots(Stream& stream, const ExpertDotsArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), dy = as_rows(a.dy, a.kOp, "dy");
  if (!in_range(stream, a.places, x.rows)) return;
  const int64_t k = a.places.shape[1];
  for_each_row_group(stream, dy.rows, k * dy.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t t = first; t < last; ++t)
      for (int64_t j = 0; j < k; ++j) {
        const T *g = data<T>(a.dy) + t * dy.stride, *v = data<T>(a.x) + data<int32_t>(a.places)[t * k + j] * x.stride;
        data<float>(a.dots)[t * k + j] =
            row_accumulate(dy.columns, [=](F32x16 sum, At at) HWY_ATTR { return fma(at.load(g), at.load(v), sum); });
      }
  });
}

}  // namespace

void expert_rows(Stream& stream, const ExpertRowsArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { gather<T>(stream, args); });
}

void expert_sum(Stream& stream, const ExpertSumArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { sum_rows<T>(stream, args); });
}

void expert_dots(Stream& stream, const ExpertDotsArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { row_dots<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(expert_rows, ExpertRowsArgs)
WEFT_CPU_KERNEL(expert_sum, ExpertSumArgs)
WEFT_CPU_KERNEL(expert_dots, ExpertDotsArgs)
#endif
