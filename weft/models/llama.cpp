#include "weft/models/llama.h"

#include <array>

#include "weft/ops/elementwise/functions.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/rope/rope.h"

namespace weft {
namespace {

// h = x + delta and y = norm(h); without a norm y is h.
Normed normed_or_sum(const RmsNorm& norm, const Residual& stream) {
  if (norm) return norm(stream);
  const Tensor sum = stream.delta ? add(stream.x, stream.delta) : stream.x;
  return {sum, sum};
}

}  // namespace

Llama::Llama(const ModelConfig& config, Weights& weights) : Model(config, weights) {
  const int64_t C = config.hidden_size, V = config.vocab_size;
  const Init normal = Init::normal(config.initializer_range);
  embed_tokens_ = weights.take("model.embed_tokens.weight", {V, C}, normal, ParameterRole::embedding);
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks_.push_back(make_block(config, weights, layer));
  norm_ = RmsNorm(weights, "model.norm", C, config.norm_eps, config.norm_adds_one);
  lm_head_ = take_head(config, weights, embed_tokens_);
  finish(weights);
}

Llama::Block Llama::make_block(const ModelConfig& c, Weights& weights, int64_t layer) {
  const std::string prefix = join("model.layers.", layer, ".");
  Block b;
  if (c.norms != NormPlaces::after)
    b.before_attention = RmsNorm(weights, prefix + "input_layernorm", c.hidden_size, c.norm_eps, c.norm_adds_one);
  make_projections(c, weights, prefix, b);
  make_norms(c, weights, prefix, b);
  c.has_experts(layer) ? make_experts(c, weights, prefix, b) : make_mlp(c, weights, prefix, b);
  return b;
}

void Llama::make_experts(const ModelConfig& c, Weights& weights, const std::string& prefix, Block& b) {
  b.experts = Experts(weights, prefix + "mlp.",
                      {.in = c.hidden_size,
                       .size = c.expert_size,
                       .experts = c.experts,
                       .chosen = c.experts_per_token,
                       .of_chosen = c.router_of_chosen,
                       .activation = c.activation,
                       .stddev = c.initializer_range,
                       .clamped = c.clamped_experts,
                       .gate_slope = float(c.gate_slope),
                       .gate_limit = float(c.gate_limit)});
}

void Llama::make_mlp(const ModelConfig& c, Weights& weights, const std::string& prefix, Block& b) {
  const int64_t C = c.hidden_size, F = c.intermediate_size;
  const Linear::Options options{.bias = c.mlp_bias, .stddev = c.initializer_range};
  if (c.fused_projections)
    b.mlp.fused = Linear(weights, prefix + "mlp.gate_up_proj", C, 2 * F, options);
  else
    b.mlp.gate_up = JointLinear(weights, prefix, C, {{"mlp.gate_proj", F, &b.mlp.gate}, {"mlp.up_proj", F, &b.mlp.up}}, options);
  b.mlp.down = Linear(weights, prefix + "mlp.down_proj", F, C, options);
  b.mlp.activation = c.activation;
}

void Llama::make_projections(const ModelConfig& c, Weights& weights, const std::string& prefix, Block& b) {
  const int64_t C = c.hidden_size, D = c.head_dim, Nq = c.heads * D, Nkv = c.kv_heads * D;
  const Linear::Options options{.bias = c.qkv_bias, .stddev = c.initializer_range};
  if (c.fused_projections)
    b.fused_qkv = Linear(weights, prefix + "self_attn.qkv_proj", C, Nq + 2 * Nkv, options);
  else  // norms of heads, and growing queries, need q and k as separate tensors
    b.qkv =
        JointLinear(weights, prefix, C, {{"self_attn.q_proj", Nq, &b.q}, {"self_attn.k_proj", Nkv, &b.k}, {"self_attn.v_proj", Nkv, &b.v}},
                    options, !c.qk_norm && c.query_growth == 0);
  b.o = Linear(weights, prefix + "self_attn.o_proj", Nq, C, {.bias = c.attention_out_bias, .stddev = c.initializer_range});
  if (c.attention_sinks) b.sinks = weights.take(prefix + "self_attn.sinks", {c.heads}, Init::normal(c.initializer_range));
  if (!c.qk_norm) return;
  b.q_norm = RmsNorm(weights, prefix + "self_attn.q_norm", c.qk_norm_whole ? Nq : D, c.norm_eps, c.norm_adds_one);
  b.k_norm = RmsNorm(weights, prefix + "self_attn.k_norm", c.qk_norm_whole ? Nkv : D, c.norm_eps, c.norm_adds_one);
}

// In Llama, post_attention_layernorm is the norm before the MLP; in families with norms after, it is the norm of attention's result.
void Llama::make_norms(const ModelConfig& c, Weights& weights, const std::string& prefix, Block& b) {
  const auto norm = [&](const char* name) { return RmsNorm(weights, prefix + name, c.hidden_size, c.norm_eps, c.norm_adds_one); };
  (c.norms == NormPlaces::before ? b.before_mlp : b.after_attention) = norm("post_attention_layernorm");
  if (c.norms == NormPlaces::around) b.before_mlp = norm("pre_feedforward_layernorm");
  if (c.norms != NormPlaces::before) b.after_mlp = norm("post_feedforward_layernorm");
}

// h = x + attention(norm(x)),  y = h + mlp(norm(h)); each sum is computed by the norm that follows it. The results of attention and of the
// MLP may be scaled or normed.
Model::BlockState Llama::forward(const Block& block, const BlockState& stream, int64_t layer, const Pass& pass) const {
  if (decodes_fused(block, layer, pass)) return {decode_fused(block, stream, layer, pass)};
  const auto added = [&](const Tensor& y, const RmsNorm& norm, const char* name) {
    const float by = float(config().residual_scale);
    const Tensor scaled = by == 1 ? y : scale(y, by), normed = norm ? norm(scaled) : scaled;
    if (norm) pass.see(layer, name, normed);
    return normed;
  };
  const auto [x, xn] = normed_or_sum(block.before_attention, stream);
  pass.see(layer, "residual", x);
  pass.see(layer, "input_norm", xn);
  const Tensor a = added(attention(block, xn, layer, pass), block.after_attention, "norm of attention");
  const auto [h, hn] = normed_or_sum(block.before_mlp, {x, a});
  pass.see(layer, "residual with attention", h);
  pass.see(layer, "post_attention_norm", hn);
  const SeeIntermediate see = [&](const char* name, const Tensor& value) { pass.see(layer, name, value); };
  RouterBalance balance = stream.balance;
  const Tensor y = block.experts ? block.experts(hn, pass.balance ? &balance : nullptr, pass.real, see) : block.mlp(hn, pass.lora(), see);
  return {{h, added(y, block.after_mlp, "norm of mlp")}, balance};
}

Tensor Llama::attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const bool joint = bool(block.fused_qkv) || (!pass.kv && block.qkv.applies(std::array{&block.q, &block.k, &block.v}, x));
  const Tensor o = joint ? joint_heads(block, x, layer, pass) : heads(block, x, layer, pass);
  pass.see(layer, "attention", o);
  const Tensor y = block.o(o.reshape({pass.B, pass.T, config().heads * config().head_dim}), pass.lora());
  pass.see(layer, "o_proj", y);
  return y;
}

AttendOptions Llama::attend_options(const Block& block, int64_t layer) const {
  return {.layer = layer,
          .scale = float(config().attention_scale),
          .dropout = config().attention_dropout,
          .site = uint32_t(layer),
          .window = config().has_window(layer) ? config().window : 0,
          .soft_cap = config().attention_soft_cap,
          .sinks = block.sinks};
}

// The result of every head, [B, T, H, D].
Tensor Llama::heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const int64_t B = pass.B, T = pass.T, H = config().heads, Hkv = config().kv_heads, D = config().head_dim;
  const std::vector<Tensor> qkv = apply_each(std::array{&block.q, &block.k, &block.v}, x, pass.lora());
  pass.see(layer, "q_proj", qkv[0]);
  pass.see(layer, "k_proj", qkv[1]);
  pass.see(layer, "v_proj", qkv[2]);
  const bool whole = config().qk_norm_whole;
  Tensor q = whole ? block.q_norm(qkv[0]) : qkv[0], k = whole ? block.k_norm(qkv[1]) : qkv[1];
  q = q.reshape({B, T, H, D}), k = k.reshape({B, T, Hkv, D});
  const Tensor v = qkv[2].reshape({B, T, Hkv, D});
  if (config().qk_norm) {
    if (!whole) q = block.q_norm(q), k = block.k_norm(k);
    pass.see(layer, "q_norm", q);
    pass.see(layer, "k_norm", k);
  }
  if (config().has_rope(layer)) {
    const RopeOptions places{.start = pass.start(), .positions = pass.document_positions};
    q = rope(q, config().query_growth > 0 ? rope_for(pass, Positions::queries) : rope_for(pass, layer), places);
    k = rope(k, rope_for(pass, layer), places);
    pass.see(layer, "rope of q", q);
    pass.see(layer, "rope of k", k);
  }
  return attend(q, k, v, pass, attend_options(block, layer));
}

// The same with q, k and v side by side in one tensor [B, T, H + 2 Hkv, D], and so their gradients: one matmul each.
Tensor Llama::joint_heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const {
  const int64_t H = config().heads, Hkv = config().kv_heads, D = config().head_dim;
  const Tensor projected =
      block.fused_qkv ? block.fused_qkv(x, pass.lora()) : block.qkv(std::array{&block.q, &block.k, &block.v}, x, pass.lora());
  Tensor qkv = projected.reshape({pass.B, pass.T, H + 2 * Hkv, D});
  const auto see = [&](const char* name, int64_t first, int64_t count) {
    pass.see(layer, name, qkv.detach().part(2, first, first + count));
  };
  see("q_proj", 0, H);
  see("k_proj", H, Hkv);
  see("v_proj", H + Hkv, Hkv);
  if (config().has_rope(layer)) {
    qkv = rope_in_place(qkv, H + Hkv, rope_for(pass, layer), {.start = pass.start(), .positions = pass.document_positions});
    see("rope of q", 0, H);
    see("rope of k", H, Hkv);
  }
  return attend_packed(qkv, Hkv, pass, attend_options(block, layer));
}

// Gemma's scale is rounded to the dtype of the weights, as in transformers.
Tensor Llama::embed(const Tensor& ids) const {
  const Tensor x = embedding(embed_tokens_, ids, config().pad_id);
  const float by = float(config().embedding_scale);
  if (by == 1) return x;
  return scale(x, config().norm_adds_one && dtype() == DType::bf16 ? float(bf16(by)) : by);
}

Model::BlockState Llama::blocks(const Tensor& ids, const Pass& pass) const {
  BlockState state{{embed(ids), Tensor()}};
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    state = through(pass, state, [this, layer, pass](const BlockState& in) { return forward(blocks_[layer], in, int64_t(layer), pass); });
  return state;
}

const RopeTable& Llama::rope_for(const Pass& pass, int64_t layer) const {
  return rope_for(pass, config().local_rope_theta > 0 && config().has_window(layer) ? Positions::local : Positions::all);
}

const RopeTable& Llama::rope_for(const Pass& pass, Positions which) const {
  const ModelConfig& c = config();
  int64_t covered = 256;
  while (covered < (pass.kv ? pass.kv->cache().capacity() : pass.T)) covered *= 2;
  covered = std::min(covered, c.max_positions);
  RopeTable& table = rope_[{which, covered}];
  if (table.cos) return table;
  if (which == Positions::local) return table = rope_table(device(), covered, c.rotary_dims(), c.local_rope_theta);
  const double growth = which == Positions::queries ? c.query_growth : 0;
  return table = rope_table(device(), covered, c.rotary_dims(), c.rope_theta,
                            {.scaling = c.rope_scaling, .context = c.max_positions, .growth = growth});
}

}  // namespace weft
