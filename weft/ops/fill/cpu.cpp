#include "weft/ops/fill/fill.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/fill/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "weft/tile/cpu/strided.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: out = value.
// Layout:   any strides, merged into runs along one axis (tile/cpu/strided.h). T is any type of the element's size.
// Order:    no sums; runs of at most 32 Ki elements are the tasks.
// Requires: no stride 0 (the contract's).
// Traffic:  one write of each element.
template <class T>
void fill_with(Stream& stream, const FillArgs& a, T value) {
  const StridedPair pair = merge_axes(a.out.shape, a.out.strides, a.out.strides);
  const int64_t step = pair.to[pair.rank - 1];
  for_each_run(stream, pair, [&](int64_t, int64_t at, int64_t n) HWY_ATTR {
    T* out = data<T>(a.out) + at;
    if (step == 1)
      std::fill_n(out, n, value);
    else
      for (int64_t i = 0; i < n; ++i) out[i * step] = value;
  });
}

}  // namespace

void fill(Stream& stream, const FillArgs& args) {
  const float value = float(args.value);
  switch (args.out.dtype) {
    case DType::f32: return fill_with(stream, args, value);
    case DType::bf16: return fill_with(stream, args, bf16(value).bits);
    case DType::f16: return fill_with(stream, args, f16(value).bits);
    case DType::i32: return fill_with(stream, args, int32_t(args.value));
    case DType::u32: return fill_with(stream, args, uint32_t(args.value));
    case DType::u8: return fill_with(stream, args, uint8_t(args.value));
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(fill, FillArgs)
#endif
