#include "weft/ops/uniform/uniform.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/uniform/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/philox.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Equation: out[i] = low + (high - low) unit(word i).
// Layout:   out packed, state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; pieces of 32 Ki elements are the tasks.
// Requires: at most 2^34 elements (the contract's).
// Traffic:  one write of out.
void uniform(Stream& stream, const UniformArgs& a) {
  const uint32_t* state = data<uint32_t>(a.state);
  const float low = a.low, range = a.high - a.low;
  for_each_row_piece(stream, 1, a.out.numel(), [&](int64_t, int64_t first, int64_t n) HWY_ATTR {
    float* out = data<float>(a.out) + first;
    for (int64_t i = 0; i < n; i += kRandomWords) {
      alignas(64) uint32_t words[kRandomWords];
      random_words(state, a.site, first + i, words);
      for_each_block(std::min(kRandomWords, n - i),
                     [&](At at) HWY_ATTR { at.store(unit_floats(words + at.i) * splat(range) + splat(low), out + i); });
    }
  });
}

// Equation: step = step + 1, modulo 2^64.
// Layout:   state {key_lo, key_hi, step_lo, step_hi}.
// Order:    one task.
// Requires: nothing more.
// Traffic:  sixteen bytes.
void advance_state(Stream&, const AdvanceStateArgs& a) {
  uint32_t* state = data<uint32_t>(a.state);
  const uint64_t step = (uint64_t(state[3]) << 32 | state[2]) + 1;
  state[2] = uint32_t(step);
  state[3] = uint32_t(step >> 32);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(uniform, UniformArgs)
WEFT_CPU_KERNEL(advance_state, AdvanceStateArgs)
#endif
