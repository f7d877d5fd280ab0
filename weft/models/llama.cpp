#include "weft/models/llama.h"

#include <array>

#include "weft/ops/embedding/embedding.h"
#include "weft/ops/rope/rope.h"

namespace weft {

Llama::Llama(const ModelConfig& config, Weights& weights) : Model(config, weights) {
  const int64_t C = config.hidden_size, V = config.vocab_size;
  const Init normal = Init::normal(config.initializer_range);
  embed_tokens_ = weights.take("model.embed_tokens.weight", {V, C}, normal, ParameterRole::embedding);
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks_.push_back(make_block(config, weights, join("model.layers.", layer, ".")));
  norm_ = RmsNorm(weights, "model.norm", C, config.norm_eps);
  lm_head_ = config.tie_embeddings ? embed_tokens_ : weights.take("lm_head.weight", {V, C}, normal, ParameterRole::head);
  finish(weights);
}

Llama::Block Llama::make_block(const ModelConfig& c, Weights& weights, const std::string& prefix) {
  const int64_t C = c.hidden_size, D = c.head_dim, F = c.intermediate_size;
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias) {
    return Linear(weights, prefix + name, in, out, {.bias = bias, .stddev = c.initializer_range});
  };
  Block b;
  b.input_norm = RmsNorm(weights, prefix + "input_layernorm", C, c.norm_eps);
  const int64_t Nq = c.heads * D, Nkv = c.kv_heads * D;
  // Norms of heads read q and k as tensors of their own.
  b.qkv =
      JointLinear(weights, prefix, C, {{"self_attn.q_proj", Nq, &b.q}, {"self_attn.k_proj", Nkv, &b.k}, {"self_attn.v_proj", Nkv, &b.v}},
                  {.bias = c.qkv_bias, .stddev = c.initializer_range}, !c.qk_norm);
  b.o = linear("self_attn.o_proj", c.heads * D, C, c.attention_out_bias);
  if (c.qk_norm) {
    b.q_norm = RmsNorm(weights, prefix + "self_attn.q_norm", D, c.norm_eps);
    b.k_norm = RmsNorm(weights, prefix + "self_attn.k_norm", D, c.norm_eps);
  }
  b.post_attention_norm = RmsNorm(weights, prefix + "post_attention_layernorm", C, c.norm_eps);
  b.mlp.gate_up = JointLinear(weights, prefix, C, {{"mlp.gate_proj", F, &b.mlp.gate}, {"mlp.up_proj", F, &b.mlp.up}},
                              {.bias = c.mlp_bias, .stddev = c.initializer_range});
  b.mlp.down = linear("mlp.down_proj", F, C, c.mlp_bias);
  b.mlp.activation = c.activation;
  return b;
}

// h = x + attention(norm(x)),  y = h + mlp(norm(h)); each sum is made by the norm that reads it.
Residual Llama::forward(const Block& block, const Residual& stream, int64_t layer, const Pass& pass) const {
  const auto [x, xn] = block.input_norm(stream);
  pass.see(layer, "residual", x);
  pass.see(layer, "input_norm", xn);
  const auto [h, hn] = block.post_attention_norm(Residual{x, attention(block, xn, layer, pass)});
  pass.see(layer, "residual with attention", h);
  pass.see(layer, "post_attention_norm", hn);
  const Tensor y = block.mlp(hn, pass.dropout, [&](const char* name, const Tensor& value) { pass.see(layer, name, value); });
  return {h, y};
}

Tensor Llama::attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const bool joint = !pass.kv && block.qkv.applies(std::array{&block.q, &block.k, &block.v}, x);
  const Tensor o = joint ? joint_heads(block, x, layer, pass) : heads(block, x, layer, pass);
  pass.see(layer, "attention", o);
  const Tensor y = block.o(o.reshape({pass.B, pass.T, config().heads * config().head_dim}), pass.dropout);
  pass.see(layer, "o_proj", y);
  return y;
}

// The result of every head, [B, T, H, D].
Tensor Llama::heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const int64_t B = pass.B, T = pass.T, H = config().heads, Hkv = config().kv_heads, D = config().head_dim;
  const std::vector<Tensor> qkv = apply_each(std::array{&block.q, &block.k, &block.v}, x, pass.dropout);
  pass.see(layer, "q_proj", qkv[0]);
  pass.see(layer, "k_proj", qkv[1]);
  pass.see(layer, "v_proj", qkv[2]);
  Tensor q = qkv[0].reshape({B, T, H, D}), k = qkv[1].reshape({B, T, Hkv, D});
  const Tensor v = qkv[2].reshape({B, T, Hkv, D});
  if (config().qk_norm) {
    q = block.q_norm(q);
    k = block.k_norm(k);
    pass.see(layer, "q_norm", q);
    pass.see(layer, "k_norm", k);
  }
  const RopeTable& table = rope_for(pass);
  const RopeOptions places{.start = pass.start(), .positions = pass.document_positions};
  q = rope(q, table, places);
  k = rope(k, table, places);
  pass.see(layer, "rope of q", q);
  pass.see(layer, "rope of k", k);
  return attend(q, k, v, pass, {.layer = layer, .dropout = config().attention_dropout, .site = uint32_t(layer)});
}

// The same with q, k and v side by side in one tensor [B, T, H + 2 Hkv, D], and so their gradients: one matmul each.
Tensor Llama::joint_heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const int64_t H = config().heads, Hkv = config().kv_heads, D = config().head_dim;
  const Tensor y = block.qkv(std::array{&block.q, &block.k, &block.v}, x, pass.dropout).reshape({pass.B, pass.T, H + 2 * Hkv, D});
  const auto see = [&](const char* name, const Tensor& heads, int64_t first, int64_t count) {
    pass.see(layer, name, heads.detach().part(2, first, first + count));
  };
  see("q_proj", y, 0, H);
  see("k_proj", y, H, Hkv);
  see("v_proj", y, H + Hkv, Hkv);
  const Tensor qkv = rope_in_place(y, H + Hkv, rope_for(pass), {.positions = pass.document_positions});
  see("rope of q", qkv, 0, H);
  see("rope of k", qkv, H, Hkv);
  return attend_packed(qkv, Hkv, pass, {.layer = layer, .dropout = config().attention_dropout, .site = uint32_t(layer)});
}

Residual Llama::blocks(const Tensor& ids, const Pass& pass) const {
  Residual stream{embedding(embed_tokens_, ids, config().pad_id), Tensor()};
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    stream = through(pass, stream, [this, layer, pass](const Residual& in) { return forward(blocks_[layer], in, int64_t(layer), pass); });
  return stream;
}

const RopeTable& Llama::rope_for(const Pass& pass) const {
  int64_t covered = 256;
  while (covered < (pass.kv ? pass.kv->cache().capacity() : pass.T)) covered *= 2;
  RopeTable& table = rope_[std::min(covered, config().max_positions)];
  if (!table.cos)
    table = rope_table(device(), std::min(covered, config().max_positions), config().head_dim, config().rope_theta, config().rope_scaling);
  return table;
}

}  // namespace weft
