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

enum class Architecture { llama, qwen2, qwen3, gpt2 };
std::string_view name(Architecture architecture);  // as config.json's model_type

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

  double norm_eps = 1e-5;         // rms_norm_eps, layer_norm_epsilon
  double rope_theta = 10000;      // Llama and Qwen
  RopeScaling rope_scaling = {};  // none or llama3

  bool tie_embeddings = false;      // the head is the token embedding
  bool qkv_bias = false;            // Llama and Qwen3: attention_bias; Qwen2 and GPT-2: always
  bool attention_out_bias = false;  // Llama and Qwen3: attention_bias; GPT-2: always
  bool mlp_bias = false;
  bool qk_norm = false;  // Qwen3: each head of q and k through an RMSNorm of head_dim
  HiddenActivation activation = HiddenActivation::silu;

  bool scale_attention = true;          // GPT-2's scale_attn_weights: 1 / sqrt(head_dim)
  bool scale_by_inverse_layer = false;  // GPT-2's scale_attn_by_inverse_layer_idx: and 1 / (layer + 1)

  float embedding_dropout = 0;  // embd_pdrop; dropout applies in training only
  float attention_dropout = 0;  // attn_pdrop, attention_dropout
  float residual_dropout = 0;   // resid_pdrop

  double initializer_range = 0.02;  // standard deviation of a new model's weights
  DType dtype = DType::f32;         // of the stored weights
  std::optional<int64_t> bos_id;
  std::optional<int64_t> pad_id;  // Llama and Qwen: a token whose embedding is not trained by looking it up
  std::vector<int64_t> eos_ids;

  // Parameters of the model, tied ones once.
  int64_t parameter_count() const;

  bool operator==(const ModelConfig&) const = default;
};

// Throws, naming `where` (a file, or "config"), the field and its value, if the sizes are invalid.
void check_config(const ModelConfig& config, std::string_view where = "config");

// "llama-tiny", "gpt2-124m", "smollm2-135m", "llama-1b", "llama-3.2-1b", "qwen2.5-0.5b", "qwen2.5-1.5b", "shakespeare-char". Throws
// listing the names for any other.
ModelConfig preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace weft
