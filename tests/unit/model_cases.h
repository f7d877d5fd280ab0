// Small models of every family, with the settings of real folders.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "weft/weft.h"

namespace weft {

struct ModelCase {
  std::string name;
  ModelConfig config;

  friend std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.name; }
};

// The families that are Llama with other options.
template <class Add>
void add_families(const Add& add) {
  const auto gemma = [](ModelConfig& c) {
    c.norms = NormPlaces::around;
    c.norm_adds_one = c.tie_embeddings = true;
    c.activation = HiddenActivation::gelu_tanh;
    c.embedding_scale = std::sqrt(double(c.hidden_size));
    c.attention_scale = 1 / std::sqrt(5.0);
    c.window = 5;
    c.window_layers = {true, false};
  };
  const auto yarn = [](ModelConfig& c) {
    c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = 12, .attention_factor = 1.14};
    c.rope_scaling.beta_fast = 2, c.rope_scaling.beta_slow = 0.25;
  };
  add("dynamic_rope", [](ModelConfig& c) { c.rope_scaling = {.kind = RopeScaling::Kind::dynamic, .factor = 3, .original_context = 48}; });
  add("mistral", [](ModelConfig& c) { c.architecture = Architecture::mistral, c.window = 5, c.head_dim = 8; });
  add("ministral3", [&](ModelConfig& c) { c.architecture = Architecture::ministral3, yarn(c), c.query_growth = 0.3; });
  add("granite", [](ModelConfig& c) {
    c.architecture = Architecture::granite, c.embedding_scale = 3, c.attention_scale = 0.6, c.residual_scale = 0.4, c.logits_divisor = 2;
    c.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 3};
  });
  add("smollm3", [&](ModelConfig& c) {
    c.architecture = Architecture::smollm3, c.rotary_layers = {true, false}, c.window = 7, c.window_layers = {false, true}, yarn(c);
  });
  add("olmo2",
      [](ModelConfig& c) { c.architecture = Architecture::olmo2, c.norms = NormPlaces::after, c.qk_norm = c.qk_norm_whole = true; });
  add("olmo3", [&](ModelConfig& c) {
    c.architecture = Architecture::olmo3, c.norms = NormPlaces::after, c.qk_norm = c.qk_norm_whole = true, yarn(c);
    c.window = 5, c.window_layers = {true, false}, c.local_rope_theta = 500000;
  });
  add("phi3", [](ModelConfig& c) {
    c.architecture = Architecture::phi3, c.fused_projections = true, c.head_dim = 8, c.rotary_fraction = 0.75;
    c.rope_scaling = {.kind = RopeScaling::Kind::longrope, .factor = 4, .original_context = 12, .attention_factor = 1.2};
    c.rope_scaling.short_factors = {1, 1.1, 1.3}, c.rope_scaling.long_factors = {1.2, 2.5, 3.75};
  });
  add("qwen3_window",
      [](ModelConfig& c) { c.architecture = Architecture::qwen3, c.qk_norm = true, c.window = 6, c.window_layers = {false, true}; });
  add("gemma2", [&](ModelConfig& c) { c.architecture = Architecture::gemma2, gemma(c), c.attention_soft_cap = 2, c.logits_soft_cap = 5; });
  add("qwen3_moe", [](ModelConfig& c) {
    c.architecture = Architecture::qwen3_moe, c.qk_norm = true;
    c.experts = 5, c.experts_per_token = 2, c.expert_size = 12, c.expert_layers = {false, true}, c.router_of_chosen = false;
  });
  add("mixtral", [](ModelConfig& c) {
    c.architecture = Architecture::mixtral, c.experts = 4, c.experts_per_token = 3, c.expert_size = c.intermediate_size;
  });
  add("gpt_oss", [&](ModelConfig& c) {
    c.architecture = Architecture::gpt_oss, c.attention_sinks = c.clamped_experts = c.qkv_bias = c.attention_out_bias = true, yarn(c);
    c.experts = 4, c.experts_per_token = 2, c.expert_size = c.intermediate_size, c.window = 5, c.window_layers = {true, false};
    c.initializer_range = 0.2;  // third derivatives of sinks show at 0.25
  });
  add("gemma3", [&](ModelConfig& c) {
    c.architecture = Architecture::gemma3, gemma(c), c.qk_norm = true, c.rope_theta = 1e6, c.local_rope_theta = 10000;
  });
}

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
  add_families(add);
  add("gpt2", gpt2);
  add("gpt2_untied_narrow", [&](ModelConfig& c) { gpt2(c), c.tie_embeddings = false, c.intermediate_size = 17; });
  add("gpt2_relu_scaled_by_layer",
      [&](ModelConfig& c) { gpt2(c), c.activation = HiddenActivation::relu, c.scale_by_inverse_layer = true; });
  add("gpt2_gelu_unscaled", [&](ModelConfig& c) { gpt2(c), c.activation = HiddenActivation::gelu_erf, c.scale_attention = false; });
  return cases;
}

}  // namespace weft
