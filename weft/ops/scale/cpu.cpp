#include "weft/ops/scale/scale.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/scale/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = x s, s = by factor.
// Layout:   x, y [R, C] with a row stride each; factor one f32 or absent.
// Order:    no sums; pieces of rows are the tasks.
// Requires: unit stride within a row (the contract's). y may be x.
// Traffic:  one read of x, one write of y.
template <class T>
void run(Stream& stream, const ScaleArgs& a) {
  const Rows x = rows_or_scalar(a.x, a.kOp, "x"), y = rows_or_scalar(a.y, a.kOp, "y");
  const float s = a.factor ? a.by * *data<float>(a.factor) : a.by;
  for_each_row_piece(stream, x.rows, x.columns, [&](int64_t r, int64_t first, int64_t n) HWY_ATTR {
    const T* from = data<T>(a.x) + r * x.stride + first;
    T* to = data<T>(a.y) + r * y.stride + first;
    for_each_block(n, [&](At at) HWY_ATTR { at.store(at.load(from) * splat(s), to); });
  });
}

}  // namespace

void scale(Stream& stream, const ScaleArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { run<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(scale, ScaleArgs)
#endif
