#include "weft/models/gpt2.h"

#include <cmath>

#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/embedding/embedding.h"

namespace weft {
namespace {

// The places that draw random numbers, told apart within a step.
enum Site : uint32_t { kEmbeddings, kAttention, kAttentionOut, kMlpOut, kSites };
uint32_t site(Site place, int64_t layer) { return uint32_t(layer) * kSites + place; }

Tensor dropped(const Tensor& x, float p, const Pass& pass, uint32_t site) {
  return pass.dropout && p > 0 ? dropout(x, p, pass.dropout, site) : x;
}

}  // namespace

Gpt2::Gpt2(const ModelConfig& config, Weights& weights) : Model(config, weights) {
  const int64_t C = config.hidden_size;
  const Init normal = Init::normal(config.initializer_range);
  wte_ = weights.take("transformer.wte.weight", {config.vocab_size, C}, normal, ParameterRole::embedding);
  wpe_ = weights.take("transformer.wpe.weight", {config.max_positions, C}, normal, ParameterRole::embedding);
  for (int64_t layer = 0; layer < config.layers; ++layer)
    blocks_.push_back(make_block(config, weights, join("transformer.h.", layer, ".")));
  ln_f_ = LayerNorm(weights, "transformer.ln_f", C, config.norm_eps);
  lm_head_ = take_head(config, weights, wte_);
  finish(weights);
}

// Matrices that add to the residual stream start smaller, by the square root of their number.
Gpt2::Block Gpt2::make_block(const ModelConfig& c, Weights& weights, const std::string& prefix) {
  const int64_t C = c.hidden_size;
  const double stddev = c.initializer_range, residual_stddev = stddev / std::sqrt(2.0 * double(c.layers));
  const auto linear = [&](const char* name, int64_t in, int64_t out, double stddev) {
    return Linear(weights, prefix + name, in, out, {.bias = true, .layout = Linear::Layout::in_out, .stddev = stddev});
  };
  Block b;
  b.ln_1 = LayerNorm(weights, prefix + "ln_1", C, c.norm_eps);
  b.c_attn = linear("attn.c_attn", C, 3 * C, stddev);
  b.c_proj = linear("attn.c_proj", C, C, residual_stddev);
  b.ln_2 = LayerNorm(weights, prefix + "ln_2", C, c.norm_eps);
  b.mlp.fc = linear("mlp.c_fc", C, c.intermediate_size, stddev);
  b.mlp.proj = linear("mlp.c_proj", c.intermediate_size, C, residual_stddev);
  b.mlp.activation = c.activation;
  return b;
}

// h = x + attention(ln_1(x)),  y = h + mlp(ln_2(h)); each sum is made by the norm that reads it.
Residual Gpt2::forward(const Block& block, const Residual& stream, int64_t layer, const Pass& pass) const {
  const float p = config().residual_dropout;
  const auto [x, xn] = block.ln_1(stream);
  pass.see(layer, "residual", x);
  pass.see(layer, "ln_1", xn);
  const Tensor a = dropped(attention(block, xn, layer, pass), p, pass, site(kAttentionOut, layer));
  const auto [h, hn] = block.ln_2(Residual{x, a});
  pass.see(layer, "residual with attention", h);
  pass.see(layer, "ln_2", hn);
  const Tensor y = block.mlp(hn, pass.lora(), [&](const char* name, const Tensor& value) { pass.see(layer, name, value); });
  return {h, dropped(y, p, pass, site(kMlpOut, layer))};
}

Tensor Gpt2::attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const int64_t B = pass.B, T = pass.T, H = config().heads, D = config().head_dim;
  float scale = config().scale_attention ? 1 / std::sqrt(float(D)) : 1.0f;
  if (config().scale_by_inverse_layer) scale /= float(layer + 1);
  const Tensor qkv = block.c_attn(x, pass.lora()).reshape({B, T, 3 * H, D});
  pass.see(layer, "c_attn", qkv);
  const Tensor o =
      attend_packed(qkv, H, pass, {.layer = layer, .scale = scale, .dropout = config().attention_dropout, .site = site(kAttention, layer)});
  pass.see(layer, "attention", o);
  const Tensor y = block.c_proj(o.reshape({B, T, H * D}), pass.lora());
  pass.see(layer, "c_proj", y);
  return y;
}

Model::BlockState Gpt2::blocks(const Tensor& ids, const Pass& pass) const {
  BlockState state{{embed(ids, pass), Tensor()}};
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    state = through(pass, state,
                    [this, layer, pass](const BlockState& in) { return BlockState{forward(blocks_[layer], in, int64_t(layer), pass)}; });
  return state;
}

// Positions of the tokens of a forward pass, [B, T].
Tensor Gpt2::places(const Pass& pass) const {
  if (pass.document_positions) return pass.document_positions.reshape({1, pass.T});
  if (!pass.kv) return pass.positions->ids(pass.B, pass.T);
  if (pass.T == 1) return pass.start().reshape({pass.B, 1});
  std::vector<int32_t> places;
  for (int64_t length : pass.kv->cache().lengths())
    for (int64_t t = 0; t < pass.T; ++t) places.push_back(int32_t(length + t));
  return Tensor::from_host(device(), {pass.B, pass.T}, places);
}

Tensor Gpt2::embed(const Tensor& ids, const Pass& pass) const {
  const Tensor at = places(pass);
  return dropped(add(embedding(wte_, ids), embedding(wpe_, at)), config().embedding_dropout, pass, site(kEmbeddings, 0));
}

}  // namespace weft
