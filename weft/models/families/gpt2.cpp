// GPT-2 (Radford et al., 2019), which does not use Llama's decoder: weft/models/gpt2.h.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

void read(const JsonNode& root, ModelConfig& c) {
  const auto size = [&](const char* own, const char* common) {
    return root.find(own) ? root.at(own).integer(1, keys::kMost) : root.at(common).integer(1, keys::kMost);
  };
  keys::refuse_windows(root);
  c.hidden_size = size("n_embd", "hidden_size");
  c.layers = size("n_layer", "num_hidden_layers");
  c.heads = c.kv_heads = size("n_head", "num_attention_heads");
  c.max_positions = size("n_positions", "max_position_embeddings");
  c.head_dim = keys::divided(root.find("n_head") ? root.at("n_head") : root.at("num_attention_heads"), c.hidden_size, c.heads);
  c.intermediate_size = root.integer_or("n_inner", 4 * c.hidden_size, 1, keys::kMost);
  c.norm_eps = keys::read_norm_eps(root, "layer_norm_epsilon", 1e-5);
  c.activation = keys::read_activation(root, "activation_function", "gelu_new");
  c.embedding_dropout = keys::read_dropout(root, "embd_pdrop", 0.1);
  c.attention_dropout = keys::read_dropout(root, "attn_pdrop", 0.1);
  c.residual_dropout = keys::read_dropout(root, "resid_pdrop", 0.1);
  c.scale_attention = root.boolean_or("scale_attn_weights", true);
  c.scale_by_inverse_layer = root.boolean_or("scale_attn_by_inverse_layer_idx", false);
  c.tie_embeddings = root.boolean_or("tie_word_embeddings", true);
  c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
}

void write(const ModelConfig& c, keys::Ordered& out) {
  out["n_embd"] = c.hidden_size;
  out["n_layer"] = c.layers;
  out["n_head"] = c.heads;
  out["n_positions"] = c.max_positions;
  out["n_ctx"] = c.max_positions;
  out["n_inner"] = c.intermediate_size;
  out["layer_norm_epsilon"] = c.norm_eps;
  out["activation_function"] = keys::activation_name(c.activation);
  out["embd_pdrop"] = keys::shortest(c.embedding_dropout);
  out["attn_pdrop"] = keys::shortest(c.attention_dropout);
  out["resid_pdrop"] = keys::shortest(c.residual_dropout);
  out["scale_attn_weights"] = c.scale_attention;
  out["scale_attn_by_inverse_layer_idx"] = c.scale_by_inverse_layer;
}

}  // namespace

const Family kGpt2Family{Architecture::gpt2, "gpt2", "GPT2LMHeadModel", read, write};

}  // namespace weft
