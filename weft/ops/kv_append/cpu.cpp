#include "weft/ops/kv_append/kv_append.h"
#include "weft/tile/cpu/heads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/kv_append/cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Reports the first sequence that has no room for its new tokens.
bool fits(Stream& stream, const KvAppendArgs& a) {
  const int64_t most = a.k_cache.shape[1] - a.k.shape[1];
  for (int64_t b = 0; b < a.k.shape[0]; ++b) {
    const int64_t start = data<int32_t>(a.start)[b];
    if (start >= 0 && start <= most) continue;
    stream.report(join("start ", start, " of sequence ", b, " is outside [0, ", most, "]"));
    return false;
  }
  return true;
}

// Equation: k_cache[b, start[b] + t] = k[b, t], and so for v.
// Layout:   k, v [B, T, Hkv, D] and the caches [B, capacity, Hkv, D], any strides over the first three axes.
// Order:    no sums; groups of tokens are the tasks.
// Requires: every start within the cache, else it is reported and nothing is written.
// Traffic:  one read and one write of each new element.
template <class T>
void append(Stream& stream, const KvAppendArgs& a) {
  const int64_t tokens = a.k.shape[1], H = a.k.shape[2], D = a.k.shape[3];
  const Heads<const T> k = heads<T>(a.k), v = heads<T>(a.v);
  const Heads<T> k_cache = heads<T>(a.k_cache), v_cache = heads<T>(a.v_cache);
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
  if (args.k.numel() == 0 || !fits(stream, args)) return;
  size_of(args.k.dtype) == 4 ? append<uint32_t>(stream, args) : append<uint16_t>(stream, args);  // the bits
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(kv_append, KvAppendArgs)
#endif
