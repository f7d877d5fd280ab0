#include "weft/ops/gradient_norm/gradient_norm.h"

#include <cmath>

#include "weft/tensor/node.h"

namespace weft {

void gradient_norm(Stream& stream, const GradientNormArgs& args) {
  const Contract contract = check_operands(stream, args);
  for (size_t i = 0; i < args.grads.size(); ++i) {
    const std::string name = join("grads[", i, "]");
    const View& grad = args.grads[i];
    contract.operand(name.c_str(), grad, {DType::f32, DType::bf16});
    contract.require(grad.contiguous(), name, " must be contiguous, got strides ", grad.strides, " for shape ", grad.shape);
  }
  contract.require(!std::isnan(args.max_norm), "max_norm is NaN");
  stream.device().kernels().gradient_norm(stream, args);
}

Cost cost(const GradientNormArgs& a) {
  Cost total{operand_bytes(a), 0};
  for (const View& grad : a.grads) {
    total.bytes += bytes_of(grad);
    total.flops += 2.0 * double(grad.numel());
  }
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
