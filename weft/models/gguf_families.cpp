#include "weft/models/gguf_families.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr GgufName kLlama[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", GgufLayout::paired_rows},
    {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", GgufLayout::paired_rows},
    {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
};

// Rotated as in transformers.
constexpr GgufName kQwen[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    {"model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
};

constexpr GgufName kGpt2[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.{}.ln_1", "blk.{}.attn_norm"},
    {"transformer.h.{}.attn.c_attn", "blk.{}.attn_qkv", GgufLayout::transposed},
    {"transformer.h.{}.attn.c_proj", "blk.{}.attn_output", GgufLayout::transposed},
    {"transformer.h.{}.ln_2", "blk.{}.ffn_norm"},
    {"transformer.h.{}.mlp.c_fc", "blk.{}.ffn_up", GgufLayout::transposed},
    {"transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down", GgufLayout::transposed},
};

// Norms after attention and the MLP.
constexpr GgufName kOlmo2[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    {"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
};

constexpr GgufName kPhi3[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up"},
    {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
};

// Norms around attention and the MLP, with gains of 1 + weight.
constexpr GgufName kGemma[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm", GgufLayout::plus_one},
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm", GgufLayout::plus_one},
    {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", GgufLayout::plus_one},
    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", GgufLayout::plus_one},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", GgufLayout::plus_one},
    {"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", GgufLayout::plus_one},
    {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", GgufLayout::plus_one},
    {"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
};

// gpt-oss. The names of the sinks and of down's biases are complete names: these parameters have no suffix .weight in the model.
constexpr GgufName kGptOss[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp"},
    {"model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias"},
};

constexpr GgufNumber kEpsilon{"attention.layer_norm_rms_epsilon", &ModelConfig::norm_eps, true},
    kTheta{"rope.freq_base", &ModelConfig::rope_theta, false};
constexpr GgufNumber kRotary[] = {kEpsilon, kTheta};
constexpr GgufNumber kMinistral3[] = {kEpsilon, kTheta, {"attention.temperature_scale", &ModelConfig::query_growth, false}};
constexpr GgufNumber kLearned[] = {{"attention.layer_norm_epsilon", &ModelConfig::norm_eps, true}};
constexpr GgufNumber kGranite[] = {kEpsilon,
                                   kTheta,
                                   {"attention.scale", &ModelConfig::attention_scale, false},
                                   {"embedding_scale", &ModelConfig::embedding_scale, false},
                                   {"residual_scale", &ModelConfig::residual_scale, false},
                                   {"logit_scale", &ModelConfig::logits_divisor, true}};
constexpr GgufNumber kGemma2[] = {kEpsilon,
                                  kTheta,
                                  {"attn_logit_softcapping", nullptr, false, &ModelConfig::attention_soft_cap, 50},
                                  {"final_logit_softcapping", nullptr, false, &ModelConfig::logits_soft_cap, 30}};
constexpr GgufNumber kGemma3[] = {kEpsilon,
                                  kTheta,
                                  {"rope.freq_base_swa", &ModelConfig::local_rope_theta, false},
                                  {"final_logit_softcapping", nullptr, false, &ModelConfig::logits_soft_cap}};

// All layers except every `every`-th. These patterns are in llama.cpp's code, not in the file.
std::vector<bool> all_but(int64_t every, int64_t layers) {
  std::vector<bool> chosen;
  for (int64_t layer = 0; layer < layers; ++layer) chosen.push_back((layer + 1) % every != 0);
  return std::ranges::all_of(chosen, [](bool each) { return each; }) ? std::vector<bool>() : chosen;
}

void complete_qwen3(ModelConfig& c) { c.qk_norm = true; }
void complete_smollm3(ModelConfig& c) { c.rotary_layers = all_but(4, c.layers); }
void complete_olmo2(ModelConfig& c) {
  c.norms = NormPlaces::after;
  c.qk_norm = c.qk_norm_whole = true;
}
// In llama.cpp, layers with a window have the same base and no scaling.
void complete_olmo3(ModelConfig& c) {
  complete_olmo2(c);
  c.local_rope_theta = c.rope_theta;
  c.window_layers = all_but(4, c.layers);
}
void complete_phi3(ModelConfig& c) { c.fused_projections = true; }

void complete_gpt_oss(ModelConfig& c) {
  c.attention_sinks = c.clamped_experts = true;
  c.window_layers = all_but(2, c.layers);
}

// `large`: llama.cpp recognises the 27B model, which has another attention scale, by this number of layers.
void complete_gemma(ModelConfig& c, int64_t every, int64_t large) {
  c.norms = NormPlaces::around;
  c.norm_adds_one = c.tie_embeddings = true;
  c.embedding_scale = std::sqrt(double(c.hidden_size));
  c.attention_scale = 1 / std::sqrt(double(c.layers == large ? c.hidden_size / c.heads : c.head_dim));
  if (c.window > 0) c.window_layers = all_but(every, c.layers);
}
void complete_gemma2(ModelConfig& c) { complete_gemma(c, 2, 46); }
void complete_gemma3(ModelConfig& c) {
  complete_gemma(c, 6, 62);
  c.qk_norm = true;
  if (c.local_rope_theta == 0) c.local_rope_theta = 10000;
}

constexpr GgufWindow kWindow{.read = true, .written = true}, kAlwaysWindow{.read = true, .written = true, .absent = 4096},
    kGptOssWindow{.read = true, .written = true, .absent = 128};
// llama.cpp's converter writes the window of Phi-3, but llama.cpp ignores it.
constexpr GgufWindow kPhi3Window{.read = true};
constexpr HiddenActivation kSilu = HiddenActivation::silu, kGelu = HiddenActivation::gelu_tanh;
constexpr GgufFamily kFamilies[] = {
    {Architecture::llama, "llama", kLlama, kRotary, kSilu},
    {Architecture::mistral, "llama", kLlama, kRotary, kSilu},
    {Architecture::qwen2, "qwen2", kQwen, kRotary, kSilu},
    {Architecture::qwen3, "qwen3", kQwen, kRotary, kSilu, complete_qwen3},
    {Architecture::qwen3_moe, "qwen3moe", kQwen, kRotary, kSilu, complete_qwen3, {}, true},
    {Architecture::mixtral, "llama", kLlama, kRotary, kSilu, nullptr, {}, true},
    {Architecture::ministral3, "mistral3", kLlama, kMinistral3, kSilu},
    {Architecture::llama, "mistral3", kLlama, kRotary, kSilu},  // Mistral Small 3.1: no growth of queries
    {Architecture::gpt_oss, "gpt-oss", kGptOss, kRotary, kSilu, complete_gpt_oss, kGptOssWindow, true},
    {Architecture::gpt2, "gpt2", kGpt2, kLearned, kGelu},
    {Architecture::granite, "granite", kLlama, kGranite, kSilu},
    {Architecture::smollm3, "smollm3", kLlama, kRotary, kSilu, complete_smollm3},
    {Architecture::olmo2, "olmo2", kOlmo2, kRotary, kSilu, complete_olmo2},
    {Architecture::olmo3, "olmo2", kOlmo2, kRotary, kSilu, complete_olmo3, kAlwaysWindow},
    {Architecture::phi3, "phi3", kPhi3, kRotary, kSilu, complete_phi3, kPhi3Window, false, true},
    {Architecture::gemma2, "gemma2", kGemma, kGemma2, kGelu, complete_gemma2, kAlwaysWindow},
    {Architecture::gemma3, "gemma3", kGemma, kGemma3, kGelu, complete_gemma3, kWindow},
};

}  // namespace

const GgufFamily& gguf_family(Architecture architecture) {
  for (const GgufFamily& family : kFamilies)
    if (family.architecture == architecture) return family;
  fail(ErrorCode::unsupported, "export", "a ", name(architecture), " model cannot be written as GGUF; ", gguf_family_names(), " can");
}

const GgufFamily* gguf_family(std::string_view name, std::optional<Architecture> architecture) {
  for (const GgufFamily& family : kFamilies)
    if (name == family.name && architecture.value_or(family.architecture) == family.architecture) return &family;
  return nullptr;
}

std::string gguf_family_names() {
  std::string list;
  for (const GgufFamily& family : kFamilies)
    if (&family == gguf_family(std::string_view(family.name))) list += join(list.empty() ? "" : ", ", family.name);
  return list;
}

std::optional<GgufPlace> gguf_place(const GgufFamily& family, const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  for (const GgufName& entry : family.names)
    if (const auto whole = gguf_renamed(entry.ours, entry.theirs, name)) return GgufPlace{*whole, entry.layout};
  for (const GgufName& entry : family.names)
    if (const auto stem = gguf_renamed(entry.ours, entry.theirs, std::string_view(name).substr(0, dot)))
      return GgufPlace{*stem + name.substr(dot), entry.layout};
  return std::nullopt;
}

}  // namespace weft
