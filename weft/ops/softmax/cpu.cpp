#include "weft/ops/softmax/softmax.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/row_batches.h"
#include "weft/tile/cpu/scratch_slots.h"

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
// Order:    rows are independent tasks; maximum and sum follow accumulate_blocks' fixed tree.
// Requires: unit stride within a row (the contract's); y may be x. C = 0 writes nothing.
// Traffic:  one read of x from memory, its second read from cache; rows of f32 in cache hold e; one write of y, by
//           non-temporal stores when the caches do not hold it.
template <class T, bool kNonTemporal, bool kScales>
void forward(Stream& stream, const SoftmaxArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const int64_t C = x.columns;
  const T* x_data = data<T>(a.x);
  T* y_data = data<T>(a.y);
  const F32x16 scale = splat(a.scale);
  const auto scaled = [=](F32x16 v) HWY_ATTR { return kScales ? v * scale : v; };  // times 1 is nothing
  ScratchSlots slots(stream, batch_rows(C) * C, x.rows);
  for_each_row_group(stream, x.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    ScratchSlots::Lease lease(slots);
    float* e = lease.take(batch_rows(C) * C);
    for_each_batch(first, last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      float m[kBatchRows], s[kBatchRows];
      for (int64_t k = 0; k < rows; ++k) {
        const T* xr = x_data + (start + k) * x.stride;
        m[k] = row_max_number(C, [=](At at) HWY_ATTR { return scaled(at.load(xr)); });
      }
      for (int64_t k = 0; k < rows; ++k) {
        const T *xr = x_data + (start + k) * x.stride, *yr = y_data + (start + k) * y.stride;
        const int64_t ahead = (std::min(start + rows + k, last - 1) - start - k) * x.stride;
        const F32x16 largest = splat(m[k] == -HUGE_VALF ? 0.0f : m[k]);  // everything is masked: exp gives zeros
        float* er = e + k * C;
        s[k] = row_sum(C, [=](At at) HWY_ATTR {
          at.prefetch(xr, ahead);  // the exponentials leave memory idle
          if (!kNonTemporal) at.prefetch(yr);
          const F32x16 v =
              exp_of_negative(scaled(at.load(xr)) - largest);  // rounded as m was, not fused: never above 0, however large m is
          at.store(v, er);
          return v;
        });
      }
      for (int64_t k = 0; k < rows; ++k) {
        const float* er = e + k * C;
        T* yr = y_data + (start + k) * y.stride;
        const F32x16 over_sum = splat(s[k] == 0 ? 0.0f : 1.0f / s[k]);
        for_each_block(C, [=](At at) HWY_ATTR { at.put(at.load(er) * over_sum, yr, kNonTemporal); });
      }
    });
    if (kNonTemporal) hwy::FlushStream();
  });
}

// Equation: dx = scale y (dy - s), s = sum(y dy).
// Layout:   y, dy, dx [R, C] with a row stride each.
// Order:    rows are independent tasks; s follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's); dx may be dy or y. C = 0 writes nothing.
// Traffic:  one read of y and dy from memory, their second read from cache while the next rows are prefetched; one write
//           of dx, by non-temporal stores when the caches do not hold it.
template <class T, bool kNonTemporal>
void backward(Stream& stream, const SoftmaxBackwardArgs& a) {
  const Rows y = as_rows(a.y, a.kOp, "y"), dy = as_rows(a.dy, a.kOp, "dy"), dx = as_rows(a.dx, a.kOp, "dx");
  const int64_t C = y.columns;
  const T *y_data = data<T>(a.y), *dy_data = data<T>(a.dy);
  T* dx_data = data<T>(a.dx);
  const F32x16 scale = splat(a.scale);
  for_each_row_group(stream, y.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for_each_batch(first, last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      float s[kBatchRows];
      for (int64_t k = 0; k < rows; ++k) {
        const T *yr = y_data + (start + k) * y.stride, *dyr = dy_data + (start + k) * dy.stride;
        s[k] = row_accumulate(C, [&](F32x16 acc, At at) HWY_ATTR { return fma(at.load(yr), at.load(dyr), acc); });
      }
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k, next = std::min(r + rows, last - 1);
        const T *yr = y_data + r * y.stride, *dyr = dy_data + r * dy.stride;
        const T *next_y = y_data + next * y.stride, *next_dy = dy_data + next * dy.stride;
        T* dxr = dx_data + r * dx.stride;
        const F32x16 mean = splat(s[k]);
        for_each_block(C, [=](At at) HWY_ATTR {
          at.prefetch(next_y);
          at.prefetch(next_dy);
          at.put(scale * at.load(yr) * (at.load(dyr) - mean), dxr, kNonTemporal);
        });
      }
    });
    if (kNonTemporal) hwy::FlushStream();
  });
}

}  // namespace

void softmax(Stream& stream, const SoftmaxArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() {
    const int64_t bytes = 2 * args.x.numel() * int64_t(sizeof(T));
    with_constant(stores_non_temporally(bytes, args.y, as_rows(args.y, args.kOp, "y").stride), [&](auto non_temporal) {
      with_constant(args.scale != 1, [&](auto scales) { forward<T, non_temporal.value, scales.value>(stream, args); });
    });
  });
}

void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args) {
  dispatch<float, bf16>(args.y.dtype, [&]<class T>() {
    const int64_t bytes = 3 * args.y.numel() * int64_t(sizeof(T));
    with_constant(stores_non_temporally(bytes, args.dx, as_rows(args.dx, args.kOp, "dx").stride),
                  [&](auto non_temporal) { backward<T, non_temporal.value>(stream, args); });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(softmax, SoftmaxArgs)
WEFT_CPU_KERNEL(softmax_backward, SoftmaxBackwardArgs)
#endif
