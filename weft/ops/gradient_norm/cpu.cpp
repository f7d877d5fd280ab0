#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/gradient_norm/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/pieces.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
float sum_of_squares(const T* x, int64_t n) {
  return row_sum(n, [&](At at) HWY_ATTR {
    const F32x16 v = at.load(x);
    return v * v;
  });
}

}  // namespace

// Equation: norm = sqrt(sum of g^2), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   gradients packed, norm and clip one f32 each.
// Order:    chunks of 65536 elements are the tasks, each summed in row_sum's fixed tree; then the chunks in order.
// Requires: packed gradients (the contract's). No gradients, or empty ones: norm 0.
// Traffic:  one read of every gradient.
void gradient_norm(Stream& stream, const GradientNormArgs& a) {
  const Pieces chunks(a.grads.size(), 65536, [&](size_t i) { return a.grads[i].numel(); });
  const Scratch<float> partial(stream, chunks.count());
  parallel_for(chunks.count(), threads(stream), [&](int64_t task) HWY_ATTR {
    const Piece piece = chunks.at(task);
    const View& grad = a.grads[piece.tensor];
    partial.data()[task] = grad.dtype == DType::f32 ? sum_of_squares(data<float>(grad) + piece.first, piece.count)
                                                    : sum_of_squares(data<bf16>(grad) + piece.first, piece.count);
  });
  float squares = 0;
  for (int64_t i = 0; i < chunks.count(); ++i) squares += partial.data()[i];
  const float norm = __builtin_sqrtf(squares), ratio = a.max_norm / (norm + 1e-6f);
  *data<float>(a.norm) = norm;
  *data<float>(a.clip) = a.max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(gradient_norm, GradientNormArgs)
#endif
