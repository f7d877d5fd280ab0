#include "weft/ops/fill/fill.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/strided.h"

namespace weft::metal {
namespace {

uint32_t bits_of(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return std::bit_cast<uint32_t>(float(value));
    case DType::bf16: return bf16(float(value)).bits;
    case DType::f16: return f16(float(value)).bits;
    case DType::i32: return uint32_t(int32_t(value));
    case DType::u32: return uint32_t(value);
    case DType::u8: return uint8_t(value);
  }
  return 0;
}

}  // namespace

void fill(Stream& stream, const FillArgs& a) {
  constexpr int kThreads = 256;
  const uint32_t value = bits_of(a.out.dtype, a.value);
  const StridedAxes axes = strided_axes(a.out.shape, a.out.strides, a.out.strides);
  launch(stream, {a.kOp, "weft/ops/fill/metal.metal", join("fill_", size_of(a.out.dtype)), {}},
         {.groups = {striding_groups(axes.count, kThreads), 1, 1}, .threads = kThreads}, bind(a, {params(axes), params(value)}));
}

}  // namespace weft::metal
