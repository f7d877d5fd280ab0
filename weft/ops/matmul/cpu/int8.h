// An int8 B: rows of it become f32 or bf16, as MatmulArgs defines them, and are multiplied as stored rows are.

#if defined(WEFT_OPS_MATMUL_CPU_INT8_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_INT8_H_
#undef WEFT_OPS_MATMUL_CPU_INT8_H_
#else
#define WEFT_OPS_MATMUL_CPU_INT8_H_
#endif

#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Sixteen numbers as f32.
HWY_INLINE F32x16 load_int8(const int8_t* p) {
  F32x16 x;
  for (int i = 0; i < kParts; ++i) x.part[i] = hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, DI>(), p + i * kLanes)));
  return x;
}

// Rows [first, first + count) of B to `to`, K elements each, one after the other.
template <class T>
void widen_rows(const MatmulArgs& a, int64_t first, int64_t count, T* to) {
  const int64_t K = a.b.shape[1], whole = K / kBlock * kBlock;
  for (int64_t n = first; n < first + count; ++n, to += K) {
    const auto* numbers = reinterpret_cast<const int8_t*>(data<uint8_t>(a.b)) + n * a.b.strides[0];
    const f16* scales = data<f16>(a.scales) + n * a.scales.strides[0];
    for (int64_t k = 0; k < whole; k += kBlock) store(load_int8(numbers + k) * splat(float(scales[k / kInt8Group])), to + k);
    for (int64_t k = whole; k < K; ++k) to[k] = T(float(numbers[k]) * float(scales[k / kInt8Group]));
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
