// The config of a model: the relevant fields of a Hugging Face config.json, with one name for all families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/nn/mlp.h"
#include "weft/ops/rope/rope_table.h"

namespace weft {

// The model families, in weft/models/families.
// clang-format off
enum class Architecture { llama, qwen2, qwen3, gpt2, mistral, ministral3, granite, smollm3, olmo2, olmo3, phi3, gemma2, gemma3, qwen3_moe,
                          mixtral, gpt_oss };
// clang-format on
std::string_view name(Architecture architecture);  // as config.json's model_type

// RMSNorms of a block: before attention and the MLP (Llama), after them (OLMo 2), or both (Gemma 2).
enum class NormPlaces { before, after, around };

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;        // n_embd
  int64_t layers = 0;             // num_hidden_layers, n_layer
  int64_t heads = 0;              // num_attention_heads, n_head
  int64_t kv_heads = 0;           // num_key_value_heads; default: heads
  int64_t head_dim = 0;           // default: hidden_size / heads
  int64_t intermediate_size = 0;  // n_inner; GPT-2's default: 4 hidden_size
  int64_t max_positions = 0;      // max_position_embeddings, n_positions

  double norm_eps = 1e-5;  // rms_norm_eps, layer_norm_epsilon
  NormPlaces norms = NormPlaces::before;
  bool norm_adds_one = false;  // Gemma: the gain of a norm is 1 + weight

  double rope_theta = 10000;  // all but GPT-2
  RopeScaling rope_scaling = {};
  double rotary_fraction = 1;            // partial_rotary_factor: the part of a head that is rotated
  double local_rope_theta = 0;           // Gemma 3, OLMo 3: rope_theta of the layers with a window, without scaling; 0: as rope_theta
  std::vector<bool> rotary_layers = {};  // SmolLM3's no_rope_layers: which layers have rotary positions; empty: all
  double query_growth = 0;               // Ministral 3's llama_4_scaling_beta (weft/ops/rope/rope_table.h)
  int64_t window = 0;                    // sliding_window: a token attends to the last `window` tokens, itself included; 0: to all
  std::vector<bool> window_layers = {};  // layer_types: which layers have the window; empty: all
  float attention_soft_cap = 0;          // attn_logit_softcapping; 0: none
  float logits_soft_cap = 0;             // final_logit_softcapping; 0: none

  bool tie_embeddings = false;      // the head is the token embedding
  bool qkv_bias = false;            // Llama and Qwen3: attention_bias; Qwen2 and GPT-2: always
  bool attention_out_bias = false;  // Llama and Qwen3: attention_bias; GPT-2: always
  bool mlp_bias = false;
  bool qk_norm = false;            // Qwen3, Gemma 3: each head of q and k through an RMSNorm of head_dim
  bool qk_norm_whole = false;      // OLMo 2, with qk_norm: one RMSNorm over all heads of q, and one over those of k
  bool fused_projections = false;  // Phi-3: qkv_proj, gate_up_proj
  HiddenActivation activation = HiddenActivation::silu;

  int64_t experts = 0;                   // num_experts, num_local_experts: per layer with experts; 0: no mixture of experts
  int64_t experts_per_token = 0;         // num_experts_per_tok
  int64_t expert_size = 0;               // moe_intermediate_size; Mixtral, gpt-oss: intermediate_size
  bool router_of_chosen = true;          // norm_topk_prob: softmax over the chosen experts only, so that their weights sum to 1
  std::vector<bool> expert_layers = {};  // Qwen3-MoE's decoder_sparse_step, mlp_only_layers: which layers have experts; empty: all
  double router_loss = 0;                // router_aux_loss_coef where output_router_logits is true
  bool clamped_experts = false;          // gpt-oss: experts with biases and a clamped gate (weft/nn/experts.h)
  double gate_slope = 1.702, gate_limit = 7;
  bool attention_sinks = false;  // gpt-oss: a learned logit per head in the softmax (weft/nn/attention_sinks.h)

  double embedding_scale = 1;           // Granite's embedding_multiplier; Gemma: sqrt(hidden_size), rounded to the weights' dtype
  double attention_scale = 0;           // Granite's attention_multiplier; Gemma: query_pre_attn_scalar^-1/2; 0: head_dim^-1/2
  double residual_scale = 1;            // Granite's residual_multiplier
  double logits_divisor = 1;            // Granite's logits_scaling
  bool scale_attention = true;          // GPT-2's scale_attn_weights: 1 / sqrt(head_dim)
  bool scale_by_inverse_layer = false;  // GPT-2's scale_attn_by_inverse_layer_idx: and 1 / (layer + 1)

  float embedding_dropout = 0;  // embd_pdrop; dropout applies in training only
  float attention_dropout = 0;  // attn_pdrop, attention_dropout
  float residual_dropout = 0;   // resid_pdrop

  double initializer_range = 0.02;  // standard deviation of a new model's weights
  DType dtype = DType::f32;         // of the stored weights
  std::optional<int64_t> bos_id;
  std::optional<int64_t> pad_id;  // all but GPT-2: looking up this token gives its embedding row no gradient
  std::vector<int64_t> eos_ids;

  // Parameters of the model, tied ones once.
  int64_t parameter_count() const;

  int64_t rotary_dims() const { return int64_t(double(head_dim) * rotary_fraction); }
  bool has_window(int64_t layer) const { return window > 0 && (window_layers.empty() || window_layers[size_t(layer)]); }
  bool has_experts(int64_t layer) const { return experts > 0 && (expert_layers.empty() || expert_layers[size_t(layer)]); }
  int64_t layers_with_experts() const;
  bool has_rope(int64_t layer) const { return rotary_layers.empty() || rotary_layers[size_t(layer)]; }

  bool operator==(const ModelConfig&) const = default;
};

// Throws, naming `where` (a file, or "config"), the field and its value, if the sizes are invalid.
void check_config(const ModelConfig& config, std::string_view where = "config");

// Sets the declared context: max_positions, the maximum length of a sequence. `dynamic` and `longrope` RoPE scaling are computed from it,
// once. It is 1 to the config's own context, or to `factor` times the original one with `dynamic`; GPT-2, whose positions are weights,
// accepts only its own. Throws for any other value.
void declare_context(ModelConfig& config, int64_t context);

// Changes the number of layers; the pattern of windows, rotary positions and experts continues.
void set_layers(ModelConfig& config, int64_t layers);

// The config of a known shape ("llama-tiny", "gpt2-124m", "smollm2-135m", ...). For any other name it throws and lists preset_names().
ModelConfig preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace weft
