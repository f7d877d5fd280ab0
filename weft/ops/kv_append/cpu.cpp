#include "weft/ops/kv_append/kv_append.h"
#include "weft/tile/cpu/heads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/kv_append/cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: k_cache[b, start[b] + t] = k[b, t], and so for v.
// Layout:   k, v [B, T, Hkv, D] and the caches [B, capacity, Hkv, D] or paged; any strides over the first three axes.
// Order:    no sums; tasks are groups of tokens.
// Requires: valid starts and page ids; otherwise reports a fault and writes nothing.
// Traffic:  one read and one write of each new element.
template <class T>
void append(Stream& stream, const KvAppendArgs& a) {
  const int64_t tokens = a.k.shape[1], H = a.k.shape[2], D = a.k.shape[3];
  const Heads<const T> k = heads<T>(a.k), v = heads<T>(a.v);
  const CachedHeads<T> k_cache = cached_heads<T>(a.k_cache, a.pages), v_cache = cached_heads<T>(a.v_cache, a.pages);
  for_each_row_group(stream, a.k.shape[0] * tokens, 2 * H * D, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t b = r / tokens, t = r % tokens, position = data<int32_t>(a.start)[b] + t;
      for (int64_t h = 0; h < H; ++h) {
        std::copy_n(k.row(b, t, h), D, k_cache.row(b, position, h));
        std::copy_n(v.row(b, t, h), D, v_cache.row(b, position, h));
      }
    }
  });
}

}  // namespace

void kv_append(Stream& stream, const KvAppendArgs& args) {
  if (args.k.numel() == 0 || !cache_holds(stream, args.start, args.k.shape[1], args.k_cache, args.pages)) return;
  size_of(args.k.dtype) == 4 ? append<uint32_t>(stream, args) : append<uint16_t>(stream, args);  // the bits
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(kv_append, KvAppendArgs)
#endif
