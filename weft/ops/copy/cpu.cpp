#include "weft/ops/copy/copy.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/copy/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"
#include "weft/tile/cpu/strided.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Sixteen elements (n < 16 at the end) a stride apart, by way of a packed block: strided and packed runs are then
// converted by the same instructions.
template <class From, class To>
void cast_strided(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t n) {
  for (int64_t i = 0; i < n; i += kBlock) {
    alignas(64) From in[kBlock] = {};
    alignas(64) To out[kBlock];
    const int64_t count = std::min<int64_t>(kBlock, n - i);
    for (int64_t k = 0; k < count; ++k) in[k] = from[(i + k) * from_step];
    store(load(in), out);
    for (int64_t k = 0; k < count; ++k) to[(i + k) * to_step] = out[k];
  }
}

// Equation: to = cast(from), to nearest even.
// Layout:   one shape, any strides each; merged into runs along one axis (tile/cpu/strided.h).
// Order:    no sums; runs of at most 32 Ki elements are the tasks.
// Requires: no overlap, no stride 0 in `to` (the contract's).
// Traffic:  one read and one write of each element; whole cache lines only where the run has unit stride.
template <class From, class To>
void convert(Stream& stream, const CopyArgs& a, const StridedPair& pair) {
  const int64_t from_step = pair.from[pair.rank - 1], to_step = pair.to[pair.rank - 1];
  for_each_run(stream, pair, [&](int64_t from_at, int64_t to_at, int64_t n) HWY_ATTR {
    const From* from = data<From>(a.from) + from_at;
    To* to = data<To>(a.to) + to_at;
    if (from_step != 1 || to_step != 1) return cast_strided(from, from_step, to, to_step, n);
    for_each_block(n, [&](At at) HWY_ATTR { at.store(at.load(from), to); });
  });
}

// Equation: to = from, the same bits.
// Layout, Order, Requires, Traffic: as convert(). T is any type of the element's size.
template <class T>
void move(Stream& stream, const CopyArgs& a, const StridedPair& pair) {
  const int64_t from_step = pair.from[pair.rank - 1], to_step = pair.to[pair.rank - 1];
  for_each_run(stream, pair, [&](int64_t from_at, int64_t to_at, int64_t n) HWY_ATTR {
    const T* from = data<T>(a.from) + from_at;
    T* to = data<T>(a.to) + to_at;
    if (from_step == 1 && to_step == 1)
      std::memcpy(to, from, size_t(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  });
}

}  // namespace

void copy(Stream& stream, const CopyArgs& args) {
  const StridedPair pair = merge_axes(args.from.shape, args.from.strides, args.to.strides);
  if (args.from.dtype == args.to.dtype) {
    switch (size_of(args.from.dtype)) {
      case 1: return move<uint8_t>(stream, args, pair);
      case 2: return move<uint16_t>(stream, args, pair);
      default: return move<uint32_t>(stream, args, pair);
    }
  }
  dispatch<float, bf16, f16>(args.from.dtype, [&]<class From>() {
    dispatch<float, bf16, f16>(args.to.dtype, [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) convert<From, To>(stream, args, pair);
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(copy, CopyArgs)
#endif
