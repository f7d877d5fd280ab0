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

// Rows [first, first + count) of B to `to`, K elements each, one after the other. Sixteen scales become f32 at a time.
template <class T>
void widen_rows(const MatmulArgs& a, int64_t first, int64_t count, T* to) {
  constexpr int64_t kSpan = kBlock * kInt8Group;
  const int64_t K = a.b.shape[1], groups = ceil_div(K, kInt8Group);
  for (int64_t n = first; n < first + count; ++n, to += K) {
    const auto* numbers = reinterpret_cast<const int8_t*>(data<uint8_t>(a.b)) + n * a.b.strides[0];
    const f16* stored = data<f16>(a.scales) + n * a.scales.strides[0];
    for (int64_t from = 0; from < K; from += kSpan) {
      alignas(64) float scales[kBlock];
      const int64_t g = from / kInt8Group, end = std::min(K, from + kSpan);
      store(groups - g >= kBlock ? load(stored + g) : load_n(stored + g, groups - g), scales);
      int64_t k = from;
      for (; k + kInt8Group <= end; k += kInt8Group) {
        const F32x16 scale = splat(scales[(k - from) / kInt8Group]);
        for (int64_t i = 0; i < kInt8Group; i += kBlock) store(load_int8(numbers + k + i) * scale, to + k + i);
      }
      for (; k < end; ++k) to[k] = T(float(numbers[k]) * scales[(k - from) / kInt8Group]);
    }
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
