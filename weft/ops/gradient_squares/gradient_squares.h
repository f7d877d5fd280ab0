// Sums of the squares of gradients, piece by piece: the first half of gradient_norm.
//
//   squares[p] = sum over the elements of piece p of g^2
//
// Each tensor is cut into pieces of kNormPiece elements, the last one shorter; an empty tensor has none. Pieces are numbered
// tensor by tensor. A piece's bits depend on its elements alone, so a tensor may be cut at any multiple of kNormPiece elements,
// its parts summed in different places, and the pieces put together. All in f32: a NaN, an infinity or a square that overflows
// shows in its piece.
#pragma once

#include <span>
#include <vector>

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

inline constexpr int64_t kNormPiece = 32768;  // elements, on every device
constexpr int64_t norm_pieces(int64_t numel) { return (numel + kNormPiece - 1) / kNormPiece; }
int64_t norm_pieces(std::span<const View> grads);

struct GradientSquaresArgs {
  static constexpr const char* kOp = "gradient_squares";
  std::vector<View> grads;  // any shapes, f32 or bf16, contiguous
  MutView squares;          // [norm_pieces(grads)]

  static constexpr auto operands() {
    using namespace operand;
    using A = GradientSquaresArgs;
    return std::array{out("squares", &A::squares, "P", DType::f32)};
  }
};

void gradient_squares(Stream& stream, const GradientSquaresArgs& args);
Cost cost(const GradientSquaresArgs& args);

// Throws, naming the op of `contract`, unless every gradient is as GradientSquaresArgs needs it.
void check_gradients(const Contract& contract, std::span<const View> grads);

Tensor gradient_squares(Device& device, std::span<const Tensor> grads);

}  // namespace weft
