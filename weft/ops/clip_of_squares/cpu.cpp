#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/clip_of_squares/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Equation: norm = sqrt(sum of squares), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   squares [P]; norm, clip scalars.
// Order:    pieces in order.
// Requires: nothing more. No pieces: norm 0. Without a max_norm above 0 clip is 1; a NaN shows in both.
// Traffic:  one read of squares.
void clip_of_squares(Stream&, const ClipOfSquaresArgs& a) {
  const float* squares = data<float>(a.squares);
  float sum = 0;
  for (int64_t i = 0; i < a.squares.numel(); ++i) sum += squares[i];
  const float norm = __builtin_sqrtf(sum), ratio = a.max_norm / (norm + 1e-6f);
  *data<float>(a.norm) = norm;
  *data<float>(a.clip) = a.max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(clip_of_squares, ClipOfSquaresArgs)
#endif
