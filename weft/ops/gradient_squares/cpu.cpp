#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/gradient_squares/cpu.cpp"
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

// Equation: squares[p] = sum of g^2 over piece p.
// Layout:   gradients packed, squares [P].
// Order:    pieces of 32768 elements are the tasks, each summed in row_sum's fixed tree.
// Requires: packed gradients (the contract's).
// Traffic:  one read of every gradient, one write of squares.
void gradient_squares(Stream& stream, const GradientSquaresArgs& a) {
  const Pieces pieces(a.grads.size(), kNormPiece, [&](size_t i) { return a.grads[i].numel(); });
  float* squares = data<float>(a.squares);
  parallel_for(pieces.count(), threads(stream), [&](int64_t task) HWY_ATTR {
    const Piece piece = pieces.at(task);
    const View& grad = a.grads[piece.tensor];
    squares[task] = grad.dtype == DType::f32 ? sum_of_squares(data<float>(grad) + piece.first, piece.count)
                                             : sum_of_squares(data<bf16>(grad) + piece.first, piece.count);
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(gradient_squares, GradientSquaresArgs)
#endif
