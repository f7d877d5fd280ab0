#include "weft/ops/activation/activation.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/activation/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/activation/cpu.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = f(x).
// Layout:   x, y [R, C] with a row stride each.
// Order:    elements are independent; groups of rows are tasks.
// Requires: unit stride within a row (the contract's). y may be x.
// Traffic:  one read of x, one write of y.
template <class T, Activation kKind>
void forward(Stream& stream, const ActivationArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  for_each_row_group(stream, x.rows, x.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* in = data<T>(a.x) + r * x.stride;
      T* out = data<T>(a.y) + r * y.stride;
      for_each_block(x.columns, [&](At at) HWY_ATTR { at.store(activate<kKind>(at.load(in)), out); });
    }
  });
}

// Equation: dx = dy f'(x).
// Layout:   x, dy, dx [R, C] with a row stride each.
// Order:    elements are independent; groups of rows are tasks.
// Requires: unit stride within a row (the contract's). dx may be dy or x.
// Traffic:  one read of x and dy, one write of dx.
template <class T, Activation kKind>
void backward(Stream& stream, const ActivationBackwardArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), dy = as_rows(a.dy, a.kOp, "dy"), dx = as_rows(a.dx, a.kOp, "dx");
  for_each_row_group(stream, x.rows, x.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T *in = data<T>(a.x) + r * x.stride, *up = data<T>(a.dy) + r * dy.stride;
      T* out = data<T>(a.dx) + r * dx.stride;
      for_each_block(x.columns, [&](At at) HWY_ATTR { at.store(at.load(up) * activation_slope<kKind>(at.load(in)), out); });
    }
  });
}

}  // namespace

void activation(Stream& stream, const ActivationArgs& args) {
  with_activation(args.kind, [&]<Activation kKind>() {
    dispatch<float, bf16>(args.x.dtype, [&]<class T>() { forward<T, kKind>(stream, args); });
  });
}

void activation_backward(Stream& stream, const ActivationBackwardArgs& args) {
  with_activation(args.kind, [&]<Activation kKind>() {
    dispatch<float, bf16>(args.x.dtype, [&]<class T>() { backward<T, kKind>(stream, args); });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(activation, ActivationArgs)
WEFT_CPU_KERNEL(activation_backward, ActivationBackwardArgs)
#endif
