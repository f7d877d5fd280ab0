#include "weft/ops/gradient_squares/gradient_squares.h"

#include "weft/tensor/node.h"

namespace weft {

int64_t norm_pieces(std::span<const View> grads) {
  int64_t pieces = 0;
  for (const View& grad : grads) pieces += norm_pieces(grad.numel());
  return pieces;
}

void check_gradients(const Contract& contract, std::span<const View> grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    const std::string name = join("grads[", i, "]");
    contract.operand(name.c_str(), grads[i], {DType::f32, DType::bf16});
    contract.require(grads[i].contiguous(), name, " must be contiguous, got strides ", grads[i].strides, " for shape ", grads[i].shape);
  }
}

void gradient_squares(Stream& stream, const GradientSquaresArgs& args) {
  const Contract contract = check_operands(stream, args);
  check_gradients(contract, args.grads);
  const int64_t pieces = norm_pieces(args.grads);
  contract.require(args.squares.numel() == pieces, "squares has shape ", args.squares.shape, ", the gradients have ", pieces,
                   " pieces of at most ", kNormPiece, " elements");
  stream.device().kernels().gradient_squares(stream, args);
}

Cost cost(const GradientSquaresArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const View& grad : a.grads) {
    total.bytes += bytes_of(grad);
    total.flops += 2.0 * double(grad.numel());
  }
  return total;
}

Tensor gradient_squares(Device& device, std::span<const Tensor> grads) {
  std::vector<View> views;
  for (const Tensor& grad : grads) views.push_back(grad.view());
  check_gradients(Contract(GradientSquaresArgs::kOp, device.stream()), views);  // before their sizes are used
  Tensor squares = Tensor::empty(device, {norm_pieces(views)});
  for (const Tensor& grad : grads) record(GradientSquaresArgs::kOp, {&grad}, {&squares}, NotDifferentiable{"it looks at gradients"});
  gradient_squares(device.stream(), {.grads = std::move(views), .squares = squares.mut_view()});
  return squares;
}

}  // namespace weft
