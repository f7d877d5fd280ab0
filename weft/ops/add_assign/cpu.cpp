#include "weft/ops/add_assign/add_assign.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/add_assign/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: dst = dst + src.
// Layout:   dst, src [R, C] with a row stride each.
// Order:    one addition an element; pieces of rows are the tasks.
// Requires: unit stride within a row (the contract's).
// Traffic:  one read of dst and src, one write of dst.
template <class T, class S>
void run(Stream& stream, const AddAssignArgs& a) {
  const Rows dst = rows_or_scalar(a.dst, a.kOp, "dst"), src = rows_or_scalar(a.src, a.kOp, "src");
  for_each_row_piece(stream, dst.rows, dst.columns, [&](int64_t r, int64_t first, int64_t n) HWY_ATTR {
    T* to = data<T>(a.dst) + r * dst.stride + first;
    const S* from = data<S>(a.src) + r * src.stride + first;
    for_each_block(n, [&](At at) HWY_ATTR { at.store(at.load(to) + at.load(from), to); });
  });
}

}  // namespace

void add_assign(Stream& stream, const AddAssignArgs& args) {
  dispatch<float, bf16>(args.dst.dtype, [&]<class T>() {
    dispatch<float, bf16>(args.src.dtype, [&]<class S>() { run<T, S>(stream, args); });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(add_assign, AddAssignArgs)
#endif
