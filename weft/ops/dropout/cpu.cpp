#include "weft/ops/dropout/dropout.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/dropout/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/philox.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y[i] = word i >= round(p 2^32) ? x[i] (1 / (1 - p)) : 0.
// Layout:   x, y packed; state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; pieces of 32 Ki elements are the tasks.
// Requires: 0 <= p < 1, at most 2^34 elements (the contract's). A dropped NaN is 0. y may be x.
// Traffic:  one read of x, one write of y.
template <class T>
void run(Stream& stream, const DropoutArgs& a) {
  const uint32_t* state = data<uint32_t>(a.state);
  const auto threshold = uint32_t(double(a.p) * 0x1p32 + 0.5);  // a float below 1 is at most 1 - 2^-24: this fits
  const float inverse = 1.0f / (1.0f - a.p);
  for_each_row_piece(stream, 1, a.x.numel(), [&](int64_t, int64_t first, int64_t n) HWY_ATTR {
    const T* x = data<T>(a.x) + first;
    T* y = data<T>(a.y) + first;
    for (int64_t i = 0; i < n; i += kRandomWords) {
      alignas(64) uint32_t words[kRandomWords];
      random_words(state, a.site, first + i, words);
      for_each_block(std::min(kRandomWords, n - i), [&](At at) HWY_ATTR {
        at.store(select(below(words + at.i, threshold), zero(), at.load(x + i) * splat(inverse)), y + i);
      });
    }
  });
}

}  // namespace

void dropout(Stream& stream, const DropoutArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { run<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(dropout, DropoutArgs)
#endif
