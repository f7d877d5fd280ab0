// Small models of every family, with the settings of real folders.
#pragma once

#include <string>
#include <vector>

#include "weft/weft.h"

namespace weft {

struct ModelCase {
  std::string name;
  ModelConfig config;

  friend std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.name; }
};

inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases;
  const auto add = [&](const char* name, auto change) {
    ModelConfig c;
    c.vocab_size = 61;
    c.hidden_size = 24;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 6;
    c.intermediate_size = 40;
    c.max_positions = 48;
    c.initializer_range = 0.25;  // larger than at the start of training, so that errors show
    change(c);
    cases.push_back({name, c});
  };
  const auto gpt2 = [](ModelConfig& c) {
    c.architecture = Architecture::gpt2;
    c.kv_heads = c.heads;
    c.activation = HiddenActivation::gelu_tanh;
    c.tie_embeddings = c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
  };
  add("llama_untied", [](ModelConfig&) {});
  add("llama_tied_one_key_head", [](ModelConfig& c) { c.tie_embeddings = true, c.kv_heads = 1; });
  add("llama_biases_wide_heads",
      [](ModelConfig& c) { c.qkv_bias = c.attention_out_bias = c.mlp_bias = true, c.head_dim = 14, c.kv_heads = 4; });
  add("llama3_rope", [](ModelConfig& c) {
    c.rope_scaling = {.kind = RopeScaling::Kind::llama3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 16};
  });
  add("llama_gelu", [](ModelConfig& c) { c.activation = HiddenActivation::gelu_erf; });
  add("qwen2", [](ModelConfig& c) { c.architecture = Architecture::qwen2, c.qkv_bias = true, c.rope_theta = 1e6; });
  add("qwen3", [](ModelConfig& c) { c.architecture = Architecture::qwen3, c.qk_norm = true, c.head_dim = 10; });
  // q, k and v are one matmul in training (weft/nn/joint_linear.h).
  add("llama_joint", [](ModelConfig& c) { c.head_dim = 8; });
  add("qwen2_joint", [](ModelConfig& c) { c.architecture = Architecture::qwen2, c.qkv_bias = true, c.head_dim = 8; });
  add("gpt2", gpt2);
  add("gpt2_untied_narrow", [&](ModelConfig& c) { gpt2(c), c.tie_embeddings = false, c.intermediate_size = 17; });
  add("gpt2_relu_scaled_by_layer",
      [&](ModelConfig& c) { gpt2(c), c.activation = HiddenActivation::relu, c.scale_by_inverse_layer = true; });
  add("gpt2_gelu_unscaled", [&](ModelConfig& c) { gpt2(c), c.activation = HiddenActivation::gelu_erf, c.scale_attention = false; });
  return cases;
}

}  // namespace weft
