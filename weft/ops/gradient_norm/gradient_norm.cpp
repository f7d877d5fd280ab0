#include "weft/ops/gradient_norm/gradient_norm.h"

#include <cmath>

#include "weft/tensor/node.h"

namespace weft {

void gradient_norm(Stream& stream, const GradientNormArgs& args) {
  const Contract contract = check_operands(stream, args);
  check_gradients(contract, args.grads);
  contract.require(!std::isnan(args.max_norm), "max_norm is NaN");
  const Shape pieces{norm_pieces(args.grads)};
  const auto workspace = stream.device().allocate(pieces.numel() * size_of(DType::f32), MemoryUse::workspace);
  const MutView squares{{workspace.get(), 0, DType::f32, pieces, contiguous_strides(pieces)}};
  const Kernels& kernels = stream.device().kernels();
  kernels.gradient_squares(stream, {.grads = args.grads, .squares = squares});
  kernels.clip_of_squares(stream, {.squares = squares, .max_norm = args.max_norm, .norm = args.norm, .clip = args.clip});
}

Cost cost(const GradientNormArgs& a) {
  Cost total = cost(GradientSquaresArgs{.grads = a.grads, .squares = {}});
  total.bytes += operand_bytes(a);
  return total;
}

GradientNorm gradient_norm(Device& device, std::span<const Tensor> grads, float max_norm) {
  GradientNorm out{Tensor::empty(device, {}), Tensor::empty(device, {})};
  std::vector<View> views;
  for (const Tensor& grad : grads) {
    record(GradientNormArgs::kOp, {&grad}, {&out.norm, &out.clip}, NotDifferentiable{"it looks at gradients"});
    views.push_back(grad.view());
  }
  gradient_norm(device.stream(),
                {.grads = std::move(views), .max_norm = max_norm, .norm = out.norm.mut_view(), .clip = out.clip.mut_view()});
  return out;
}

}  // namespace weft
