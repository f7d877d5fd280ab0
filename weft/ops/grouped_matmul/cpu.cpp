// One matmul per expert, by the kernels of weft/ops/matmul and therefore in their order.
#include "weft/device/coarse_workspace.h"
#include "weft/ops/grouped_matmul/grouped_matmul.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/grouped_matmul/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

namespace weft::cpu {
void matmul(Stream& stream, const MatmulArgs& args);
}

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Calls body(e, first, last) for the rows of each expert. On the counting device, which has no values of starts, one expert has all rows,
// the case that needs most workspace. Reports a fault if starts do not ascend from 0 to P.
template <class F>
void for_each_expert(Stream& stream, const View& starts, int64_t P, F&& body) {
  const int64_t E = starts.numel() - 1;
  const int32_t* start = data<int32_t>(starts);
  bool counting = true;
  parallel_for(1, 1, [&](int64_t) { counting = false; });
  for (int64_t e = 0; e < E && !counting; ++e) {
    const bool first = e > 0 || start[0] == 0, last = e + 1 < E || start[E] == P;
    if (first && last && start[e] <= start[e + 1]) continue;
    return stream.report(join("starts[", e, "] is ", start[e], " and the next one ", start[e + 1], ", expected to ascend from 0 to ", P));
  }
  const CoarseWorkspace coarse;  // the number of rows per expert changes with every step
  for (int64_t e = 0; e < E; ++e) {
    const int64_t first = counting ? (e == 0 ? 0 : P) : start[e], last = counting ? P : start[e + 1];
    body(e, first, last);
  }
}

// Matrix e of a stacked view.
template <class AnyView>
AnyView matrix_of(const AnyView& view, int64_t e) {
  AnyView matrix = part(view, 0, e, e + 1);
  matrix.shape = {view.shape[1], view.shape[2]};
  matrix.strides = {view.strides[1], view.strides[2]};
  return matrix;
}

View bias_of(const View& bias, int64_t e) {
  if (!bias) return {};
  View row = part(bias, 0, e, e + 1);
  row.shape = {bias.shape[1]};
  row.strides = {bias.strides[1]};
  return row;
}

}  // namespace

// Equation: c[i] = a[i] op(b[e]) + bias[e] for the rows i of expert e.
// Layout:   a [P, K] and c [P, N] with a row stride each, b [E, K, N] or [E, N, K], starts [E + 1].
// Order:    matmul's: K in one order for any number of rows. Experts run one after the other; each matmul is split into tasks.
// Requires: starts ascending from 0 to P; otherwise reports a fault and computes nothing.
// Traffic:  one read of a and of the matrices of experts with rows, one write of c.
void grouped_matmul(Stream& stream, const GroupedMatmulArgs& a) {
  for_each_expert(stream, a.starts, a.a.shape[0], [&](int64_t e, int64_t first, int64_t last) {
    if (first == last || a.c.shape[1] == 0) return;
    cpu::matmul(stream, {.a = part(a.a, 0, first, last),
                         .b = matrix_of(a.b, e),
                         .c = part(a.c, 0, first, last),
                         .bias = bias_of(a.bias, e),
                         .pre = {},
                         .transpose_b = a.transpose_b});
  });
}

// Equation: c[e] (+)= sum over the rows i of expert e of a[i]^T b[i].
// Layout:   a [P, M] and b [P, N] with a row stride each, c [E, M, N], starts [E + 1].
// Order:    matmul's over the rows of an expert, ascending; experts one after the other.
// Requires: as grouped_matmul.
// Traffic:  one read of a and b, one write of c (and one read when accumulating).
void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& a) {
  for_each_expert(stream, a.starts, a.a.shape[0], [&](int64_t e, int64_t first, int64_t last) {
    if (first == last && a.accumulate) return;
    cpu::matmul(stream, {.a = part(a.a, 0, first, last),
                         .b = part(a.b, 0, first, last),
                         .c = matrix_of(a.c, e),
                         .bias = {},
                         .pre = {},
                         .transpose_a = true,
                         .beta = a.accumulate ? 1.0f : 0.0f,
                         .any_order = true});
  });
}

// Equation: y[e] = sum over the rows i of expert e of x[i].
// Layout:   x [P, N] with a row stride, y [E, N], starts [E + 1].
// Order:    an expert is a task; its rows ascending from 0.
// Requires: as grouped_matmul.
// Traffic:  one read of x, one write of y.
void grouped_sums(Stream& stream, const GroupedSumsArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x");
  for_each_expert(stream, a.starts, x.rows, [&](int64_t e, int64_t first, int64_t last) {
    dispatch<float, bf16>(a.x.dtype, [&]<class T>() {
      parallel_for(1, 1, [&](int64_t) HWY_ATTR {
        float* to = data<float>(a.y) + e * x.columns;
        for_each_block(x.columns, [=, &a](At at) HWY_ATTR {
          F32x16 sum = zero();
          for (int64_t i = first; i < last; ++i) sum = sum + at.load(data<T>(a.x) + i * x.stride);
          at.store(sum, to);
        });
      });
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(grouped_matmul, GroupedMatmulArgs)
WEFT_CPU_KERNEL(grouped_matmul_weights, GroupedMatmulWeightsArgs)
WEFT_CPU_KERNEL(grouped_sums, GroupedSumsArgs)
#endif
