// Gemma 2: norms before and after attention and the MLP, with gains of 1 + weight; scaled embeddings; soft caps; a window in every other
// layer. Gemma 3 (text model): norms on the heads of q and k instead of a soft cap, and another RoPE base in layers with a window.
#include <cmath>

#include "weft/models/families/keys.h"

namespace weft {
namespace {

constexpr const char *kActivation = "hidden_activation", *kQueryScalar = "query_pre_attn_scalar";
constexpr const char* kLocalTheta = "rope_local_base_freq";
constexpr const char *kAttentionCap = "attn_logit_softcapping", *kLogitsCap = "final_logit_softcapping";

void read_block(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c,
                   {.tied = true,
                    .kv_heads_required = true,
                    .head_dim = 256,
                    .activation_key = kActivation,
                    .activation = "gelu_pytorch_tanh",
                    .pad_id = 0});
  c.norms = NormPlaces::around;
  c.norm_adds_one = true;
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.embedding_scale = std::sqrt(double(c.hidden_size));
  c.attention_scale = 1 / std::sqrt(double(root.integer_or(kQueryScalar, 256, 1, keys::kMost)));
}

void write_block(const ModelConfig& c, keys::Ordered& out) {
  keys::write_sizes(c, out, kActivation);
  if (c.activation == HiddenActivation::gelu_tanh) out[kActivation] = "gelu_pytorch_tanh";  // the name in published Gemma files
  out["attention_bias"] = c.attention_out_bias;
  out[kQueryScalar] = c.attention_scale == 0 ? c.head_dim : std::llround(1 / (c.attention_scale * c.attention_scale));
  out[kLogitsCap] = keys::soft_cap_json(c.logits_soft_cap);
  keys::write_layer_windows(c, out);
}

void read_gemma2(const JsonNode& root, ModelConfig& c) {
  read_block(root, c);
  keys::read_rope(root, c, 10000);
  keys::read_layer_windows(root, c, 4096, [](int64_t layer) { return layer % 2 == 0; });
  c.attention_soft_cap = keys::read_soft_cap(root, kAttentionCap, 50);
  c.logits_soft_cap = keys::read_soft_cap(root, kLogitsCap, 30);
}

void write_gemma2(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out.erase("hidden_act");
  write_block(c, out);
  out[kAttentionCap] = keys::soft_cap_json(c.attention_soft_cap);
}

void read_gemma3(const JsonNode& root, ModelConfig& c) {
  read_block(root, c);
  keys::read_layered_rope(root, c, 1000000, root.find(kLocalTheta) ? keys::positive(root.at(kLocalTheta)) : 10000);
  const int64_t pattern = root.integer_or("sliding_window_pattern", 6, 1, keys::kMost);
  keys::read_layer_windows(root, c, 4096, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  if (const auto cap = root.find(kAttentionCap)) cap->unsupported("is ", cap->number(), "; Gemma 3 has no soft cap on attention");
  c.logits_soft_cap = keys::read_soft_cap(root, kLogitsCap, 0);
  c.qk_norm = true;
}

void write_gemma3(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out.erase("hidden_act");
  out[kLocalTheta] = c.local_rope_theta;
  write_block(c, out);
}

}  // namespace

const Family kGemma2Family{Architecture::gemma2, "gemma2", "Gemma2ForCausalLM", read_gemma2, write_gemma2};
const Family kGemma3Family{Architecture::gemma3, "gemma3_text", "Gemma3ForCausalLM", read_gemma3, write_gemma3};

}  // namespace weft
