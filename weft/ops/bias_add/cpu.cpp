#include "weft/ops/bias_add/bias_add.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/bias_add/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = x + bias.
// Layout:   x, y [R, C] with a row stride each, bias [C].
// Order:    one addition an element; pieces of rows are the tasks.
// Requires: unit stride within a row (the contract's). y may be x.
// Traffic:  one read of x, one write of y; bias from cache.
template <class T, class B>
void run(Stream& stream, const BiasAddArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  for_each_row_piece(stream, x.rows, x.columns, [&](int64_t r, int64_t first, int64_t n) HWY_ATTR {
    const T* from = data<T>(a.x) + r * x.stride + first;
    const B* bias = data<B>(a.bias) + first;
    T* to = data<T>(a.y) + r * y.stride + first;
    for_each_block(n, [&](At at) HWY_ATTR { at.store(at.load(from) + at.load(bias), to); });
  });
}

}  // namespace

void bias_add(Stream& stream, const BiasAddArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() {
    args.bias.dtype == DType::f32 ? run<T, float>(stream, args) : run<T, T>(stream, args);
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(bias_add, BiasAddArgs)
#endif
