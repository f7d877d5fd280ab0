#include "weft/nn/layers.h"

#include <algorithm>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/matmul_group/matmul_group.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/tensor/node.h"

namespace weft {

Linear::Linear(Weights& weights, const std::string& name, int64_t in, int64_t out, const Options& options, const Place& place)
    : layout(options.layout) {
  const Shape shape = layout == Layout::out_in ? Shape{out, in} : Shape{in, out};
  const Init init = Init::normal(options.stddev);
  if (weights.int8())
    int8 = weights.take_int8(name + ".weight", shape, init, ParameterRole::matrix, layout == Layout::in_out);
  else
    weight = weights.take(name + ".weight", shape, init, place.weight);
  if (options.bias) bias = weights.take(name + ".bias", {out}, Init::zeros(), place.bias);
  adapter = weights.take_adapter(name, in, out, layout == Layout::in_out);
  named = weights.named_adapters(name, in, out, layout == Layout::in_out);
}

Linear::Linear(Device& device, int64_t in, int64_t out, const Options& options, uint64_t seed) {
  NewWeights weights(device, DType::f32, /*trainable=*/true, seed);
  *this = Linear(weights, "linear", in, out, options);
}

Linear::Linear(Device& device, int64_t in, int64_t out, uint64_t seed) : Linear(device, in, out, Options{}, seed) {}

std::vector<Parameter> Linear::parameters() const {
  std::vector<Parameter> all = {{"weight", weight}};
  if (bias) all.push_back({"bias", bias});
  if (adapter) all.push_back({"lora_A.weight", adapter.a}), all.push_back({"lora_B.weight", adapter.b});
  return all;
}

Tensor Linear::operator()(const Tensor& x, Activation activation, const LoraUse& lora) const {
  const bool adds_named = has_named(lora);
  if (!adapter && !adds_named) return product(x, activation);
  const Tensor y = product(x, Activation::none);
  if (adds_named) return add_named(x, y, activation, lora);
  const Tensor sum = add(y, adapter(x, lora.random));
  return activation == Activation::none ? sum : weft::activation(sum, activation);
}

Tensor Linear::product(const Tensor& x, Activation activation) const {
  if (int8) return matmul(x, int8.numbers, {.transpose_b = true, .bias = bias, .activation = activation, .scales = int8.scales});
  return matmul(x, weight, {.transpose_b = layout == Layout::out_in, .bias = bias, .activation = activation});
}

// Adds the named adapters to `sum`, in place. A sequence with an adapter has the bits of a layer with only that adapter. The others have
// the bits of a layer without adapters, in which the matmul applies the activation before it rounds.
Tensor Linear::add_named(const Tensor& x, const Tensor& sum, Activation activation, const LoraUse& lora) const {
  check(!adapter && !should_record({&x, &weight}), "lora", "named adapters are for inference, and for models made without LoRA");
  for (const AdapterRows& rows : lora.rows) {
    const Tensor in = x.part(0, rows.first, rows.first + rows.count), y = sum.part(0, rows.first, rows.first + rows.count);
    if (const LowRank* matrices = named->of(rows.adapter)) {
      add_assign(y, (*matrices)(in));
      if (activation != Activation::none) copy(weft::activation(y, activation), y);
    } else if (activation != Activation::none) {
      copy(product(in, activation), y);
    }
  }
  return sum;
}

std::vector<Tensor> apply_each(std::span<const Linear* const> layers, const Tensor& x, const LoraUse& lora) {
  const bool alone = std::ranges::any_of(
      layers, [&](const Linear* l) { return l->int8 || l->adapter || l->has_named(lora) || should_record({&x, &l->weight, &l->bias}); });
  if (!alone) {
    std::vector<RightOperand> right;
    for (const Linear* l : layers) right.push_back({l->weight, l->bias, l->layout == Linear::Layout::out_in});
    return matmul_group(x, right);
  }
  std::vector<Tensor> results;
  for (const Linear* l : layers) results.push_back((*l)(x, lora));
  return results;
}

RmsNorm::RmsNorm(Weights& weights, const std::string& name, int64_t size, double eps, bool adds_one)
    : weight(weights.take(name + ".weight", {size}, adds_one ? Init::zeros() : Init::ones())), eps(float(eps)), adds_one(adds_one) {}

Tensor RmsNorm::gain() const {
  static const auto plus_one = fuse([](Expr w) { return w + 1.0f; }).as(DType::f32);
  return adds_one ? plus_one(weight) : weight;
}

Tensor RmsNorm::operator()(const Tensor& x) const { return rms_norm(x, gain(), eps); }

Normed RmsNorm::operator()(const Residual& stream) const {
  if (!stream.delta) return {stream.x, rms_norm(stream.x, gain(), eps)};
  const auto [h, y] = rms_norm_residual(stream.delta, stream.x, gain(), eps);
  return {h, y};
}

LayerNorm::LayerNorm(Weights& weights, const std::string& name, int64_t size, double eps)
    : weight(weights.take(name + ".weight", {size}, Init::ones())),
      bias(weights.take(name + ".bias", {size}, Init::zeros())),
      eps(float(eps)) {}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight, bias, eps); }

Normed LayerNorm::operator()(const Residual& stream) const {
  if (!stream.delta) return {stream.x, layer_norm(stream.x, weight, bias, eps)};
  const auto [h, y] = layer_norm_residual(stream.delta, stream.x, weight, bias, eps);
  return {h, y};
}

}  // namespace weft
