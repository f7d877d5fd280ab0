// Matmul with an int8 B: pieces of its rows are widened to f32 or bf16 (the weights that MatmulArgs defines) and then multiplied by the
// usual kernels.

#if defined(WEFT_OPS_MATMUL_CPU_INT8_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_INT8_H_
#undef WEFT_OPS_MATMUL_CPU_INT8_H_
#else
#define WEFT_OPS_MATMUL_CPU_INT8_H_
#endif

#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/pairs.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Loads sixteen int8 numbers as f32.
HWY_INLINE F32x16 load_int8(const int8_t* p) {
  F32x16 x;
  for (int i = 0; i < kParts; ++i) x.part[i] = hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, DI>(), p + i * kLanes)));
  return x;
}

// Stores two blocks as T, one after the other. kInstruction: uses AVX512_BF16's conversion, which rounds as store() does except for
// subnormals; an int8 number times an f16 scale is never subnormal.
template <bool kInstruction, class T>
HWY_INLINE void store_two(F32x16 first, F32x16 second, T* to) {
#if WEFT_HAS_DOT
  if constexpr (kInstruction && std::is_same_v<T, bf16>) {
    __m512i words;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(first.part[0].raw), "v"(second.part[0].raw));
    _mm512_storeu_si512(to, words);
    return;
  }
#endif
  store(first, to);
  store(second, to + kBlock);
}

// Widens columns [from, end) of `count` rows of B, from row `first` on, into rows of `to` that are `row` elements apart. `from` is a
// multiple of kInt8Span: the columns of sixteen scales, which are converted together. Prefetches the numbers `ahead` bytes further.
inline constexpr int64_t kInt8Span = kBlock * kInt8Group;
template <bool kInstruction, class T>
void widen_rows(const MatmulArgs& a, int64_t first, int64_t count, int64_t from, int64_t end, T* to, int64_t row, int64_t ahead) {
  const int64_t groups = ceil_div(a.b.shape[1], kInt8Group);
  for (int64_t n = first; n < first + count; ++n, to += row) {
    const auto* numbers = reinterpret_cast<const int8_t*>(data<uint8_t>(a.b)) + n * a.b.strides[0];
    const f16* stored = data<f16>(a.scales) + n * a.scales.strides[0];
    for (int64_t k = from; k < end; k += 64) __builtin_prefetch(numbers + k + ahead, 0, 2);
    for (int64_t span = from; span < end; span += kInt8Span) {
      alignas(64) float scales[kBlock];
      const int64_t g = span / kInt8Group, stop = std::min(end, span + kInt8Span);
      store(groups - g >= kBlock ? load(stored + g) : load_n(stored + g, groups - g), scales);
      int64_t k = span;
      for (; k + kInt8Group <= stop; k += kInt8Group) {
        static_assert(kInt8Group == 2 * kBlock);
        const F32x16 scale = splat(scales[(k - span) / kInt8Group]);
        store_two<kInstruction>(load_int8(numbers + k) * scale, load_int8(numbers + k + kBlock) * scale, to + k - from);
      }
      for (; k < stop; ++k) to[k - from] = T(float(numbers[k]) * scales[(k - span) / kInt8Group]);
    }
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
