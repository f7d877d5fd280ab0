#include "weft/nn/lora.h"

#include "weft/ops/copy/copy.h"
#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {

Tensor LowRank::operator()(const Tensor& x, const Tensor& random) const {
  const Tensor kept = random && dropout > 0 ? weft::dropout(x, float(dropout), random, site) : x;
  const Tensor inner = weft::scale(matmul(kept, a, {.transpose_b = true}), scale);
  return matmul(inner, b, {.transpose_b = true});
}

bool lora_target(std::string_view target, std::string_view layer) {
  if (target == "all-linear" || target == layer) return true;
  return layer.size() > target.size() && layer.ends_with(target) && layer[layer.size() - target.size() - 1] == '.';
}

Tensor merged(const Tensor& weight, const LoraAdapter& adapter) {
  const NoGrad no_grad;
  const Tensor a = cast(adapter.matrices.a.detach(), DType::f32), b = cast(adapter.matrices.b.detach(), DType::f32);
  const Tensor sum = Tensor::empty(weight.device(), weight.shape());
  copy(weight.detach(), sum);
  const Tensor& left = adapter.transposed ? a : b;
  const Tensor& right = adapter.transposed ? b : a;
  matmul(weight.device().stream(), {.a = left.view(),
                                    .b = right.view(),
                                    .c = sum.mut_view(),
                                    .bias = {},
                                    .pre = {},
                                    .transpose_a = adapter.transposed,
                                    .transpose_b = adapter.transposed,
                                    .alpha = adapter.matrices.scale,
                                    .beta = 1});
  return sum;
}

}  // namespace weft
