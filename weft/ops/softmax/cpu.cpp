#include "weft/ops/softmax/softmax.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/softmax/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = e / sum(e), e = exp(scale x - m), m = max(scale x); zeros where m = -infinity.
// Layout:   x, y [R, C] with a row stride each.
// Order:    rows are independent tasks; maximum and sum follow reduce_blocks' fixed tree.
// Requires: unit stride within a row (the contract's); y may be x. C = 0 writes nothing.
// Traffic:  one read of x from memory, the others from cache; one write of y. f32 keeps e in y until it is divided;
//           bf16 would round it there, so it computes e twice.
template <class T>
void forward(Stream& stream, const SoftmaxArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const int64_t C = x.columns;
  const F32x16 scale = splat(a.scale);
  for_each_row_group(stream, x.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* xr = data<T>(a.x) + r * x.stride;
      T* yr = data<T>(a.y) + r * y.stride;
      const float largest = row_max(C, [&](At at) HWY_ATTR { return at.load(xr) * scale; });
      if (largest == -HUGE_VALF) {  // everything is masked
        for_each_block(C, [&](At at) HWY_ATTR { at.store(zero(), yr); });
        continue;
      }
      const F32x16 m = splat(largest);
      if constexpr (std::is_same_v<T, float>) {
        const F32x16 over_sum = splat(1.0f / row_sum(C, [&](At at) HWY_ATTR {
          const F32x16 e = exp(at.load(xr) * scale - m);
          at.store(e, yr);
          return e;
        }));
        for_each_block(C, [&](At at) HWY_ATTR { at.store(at.load(yr) * over_sum, yr); });
      } else {
        const F32x16 over_sum = splat(1.0f / row_sum(C, [&](At at) HWY_ATTR { return exp(at.load(xr) * scale - m); }));
        for_each_block(C, [&](At at) HWY_ATTR { at.store(exp(at.load(xr) * scale - m) * over_sum, yr); });
      }
    }
  });
}

// Equation: dx = scale y (dy - s), s = sum(y dy).
// Layout:   y, dy, dx [R, C] with a row stride each.
// Order:    rows are independent tasks; s follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's); dx may be dy or y. C = 0 writes nothing.
// Traffic:  one read of y and dy from memory, their second read from cache; one write of dx.
template <class T>
void backward(Stream& stream, const SoftmaxBackwardArgs& a) {
  const Rows y = as_rows(a.y, a.kOp, "y"), dy = as_rows(a.dy, a.kOp, "dy"), dx = as_rows(a.dx, a.kOp, "dx");
  const int64_t C = y.columns;
  const F32x16 scale = splat(a.scale);
  for_each_row_group(stream, y.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T *yr = data<T>(a.y) + r * y.stride, *dyr = data<T>(a.dy) + r * dy.stride;
      T* dxr = data<T>(a.dx) + r * dx.stride;
      const F32x16 s = splat(row_sum(C, [&](At at) HWY_ATTR { return at.load(yr) * at.load(dyr); }));
      for_each_block(C, [&](At at) HWY_ATTR { at.store(scale * at.load(yr) * (at.load(dyr) - s), dxr); });
    }
  });
}

}  // namespace

void softmax(Stream& stream, const SoftmaxArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { forward<T>(stream, args); });
}

void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args) {
  dispatch<float, bf16>(args.y.dtype, [&]<class T>() { backward<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(softmax, SoftmaxArgs)
WEFT_CPU_KERNEL(softmax_backward, SoftmaxBackwardArgs)
#endif
