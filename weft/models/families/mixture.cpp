// Mixtures of experts. Qwen3-MoE: Qwen3 with experts in some or all layers. Mixtral (Jiang et al., 2024): Llama with experts in every
// layer. gpt-oss: biases, attention sinks, a window in every other layer, a clamped gate.
#include "weft/models/families/keys.h"
#include "weft/ops/route/route.h"

namespace weft {
namespace {

// num_experts and num_local_experts are names of one attribute in transformers.
int64_t read_expert_count(const JsonNode& root, int64_t absent) {
  std::optional<JsonNode> chosen;
  for (const char* key : {"num_local_experts", "num_experts"}) {
    const auto given = root.find(key);
    if (chosen && given && given->value() != chosen->value())
      given->refuse("is ", shown_value(given->value()), " and ", chosen->path(), " is ", shown_value(chosen->value()));
    if (given) chosen = given;
  }
  return chosen ? chosen->integer(1, RouteArgs::kMostExperts) : absent;
}

// Reads the numbers of experts and of experts per token, and the load-balancing loss, which applies if output_router_logits is true.
void read_experts(const JsonNode& root, ModelConfig& c, int64_t experts, int64_t per_token) {
  c.experts = read_expert_count(root, experts);
  c.experts_per_token = root.integer_or("num_experts_per_tok", per_token, 1, keys::kMost);
  if (c.experts_per_token > c.experts)
    root.at("num_experts_per_tok").refuse("is ", c.experts_per_token, ", but there are ", c.experts, " experts");
  const double loss = root.number_or("router_aux_loss_coef", 0.001);
  if (!(loss >= 0)) root.at("router_aux_loss_coef").refuse("is ", loss, ", expected zero or more");
  if (root.boolean_or("output_router_logits", false)) c.router_loss = loss;
}

void write_experts(const ModelConfig& c, keys::Ordered& out, const char* experts_key) {
  out[experts_key] = c.experts;
  out["num_experts_per_tok"] = c.experts_per_token;
  out["output_router_logits"] = c.router_loss > 0;
  out["router_aux_loss_coef"] = c.router_loss > 0 ? c.router_loss : 0.001;
}

void read_expert_layers(const JsonNode& root, ModelConfig& c) {
  const int64_t step = root.integer_or("decoder_sparse_step", 1, 1, keys::kMost);
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < c.layers; ++layer) layers.push_back((layer + 1) % step == 0);
  if (const auto dense = root.find("mlp_only_layers"))
    for (const JsonNode& each : dense->elements()) layers[size_t(each.integer(0, c.layers - 1))] = false;
  for (const bool sparse : layers)
    if (!sparse) c.expert_layers = layers;
}

// The window applies to every layer: the class has neither layer_types nor max_window_layers.
void read_qwen3_moe_window(const JsonNode& root, ModelConfig& c) {
  if (!root.boolean_or("use_sliding_window", false)) return keys::refuse_windows(root);
  if (const auto layers = root.find("layer_types"))
    for (const JsonNode& layer : layers->elements())
      if (layer.text() != "sliding_attention")
        layer.unsupported("is '", shown(layer.text()), "'; with use_sliding_window every layer of this family has the window");
  keys::read_window(root, c, 4096);
}

void read_qwen3_moe(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, {.kv_heads_required = true});
  keys::read_rope(root, c, 10000);
  read_qwen3_moe_window(root, c);
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.qk_norm = true;
  read_experts(root, c, 128, 8);
  c.expert_size = root.integer_or("moe_intermediate_size", 768, 1, keys::kMost);
  c.router_of_chosen = root.boolean_or("norm_topk_prob", false);
  read_expert_layers(root, c);
}

void write_qwen3_moe(const ModelConfig& c, keys::Ordered& out) {
  if (c.window > 0 && !c.window_layers.empty())
    fail(ErrorCode::unsupported, "export",
         "this qwen3_moe model has a window in some layers; config.json can express it for all layers or none");
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
  out["use_sliding_window"] = c.window > 0;
  if (c.window > 0) out["sliding_window"] = c.window;
  write_experts(c, out, "num_experts");
  out["moe_intermediate_size"] = c.expert_size;
  out["norm_topk_prob"] = c.router_of_chosen;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = keys::Ordered::array();
  for (int64_t layer = 0; layer < c.layers; ++layer)
    if (!c.has_experts(layer)) out["mlp_only_layers"].push_back(layer);
}

void read_mixtral(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c, {.norm_eps = 1e-5, .rope_theta = 1e6, .kv_heads = 8});
  keys::read_window(root, c, 0);
  read_experts(root, c, 8, 2);
  c.expert_size = c.intermediate_size;
  if (const double noise = root.number_or("router_jitter_noise", 0); noise != 0)
    root.at("router_jitter_noise").unsupported("is ", noise, "; only 0 is supported");
}

void write_mixtral(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  keys::write_window(c, out);
  write_experts(c, out, "num_local_experts");
}

// The class's default scaling for a file without rope_scaling and rope_parameters; null means no scaling.
RopeScaling gpt_oss_scaling() {
  RopeScaling s{.kind = RopeScaling::Kind::yarn, .factor = 32, .original_context = 4096};
  s.attention_factor = keys::yarn_attention_factor(s.factor);
  s.beta_fast = 32;
  s.beta_slow = 1;
  s.truncate = false;
  return s;
}

void read_gpt_oss(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, {.norm_eps = 1e-5, .kv_heads = 8, .head_dim = 64});
  keys::read_rope(root, c, 150000);
  if (!root.value().contains("rope_scaling") && !root.value().contains("rope_parameters")) c.rope_scaling = gpt_oss_scaling();
  keys::read_layer_windows(root, c, 128, [](int64_t layer) { return layer % 2 == 0; });
  read_experts(root, c, 128, 4);
  c.expert_size = c.intermediate_size;
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", true);
  c.attention_sinks = c.clamped_experts = true;
  c.gate_slope = root.number_or("swiglu_alpha", 1.702);
  if (const auto limit = root.find("swiglu_limit")) c.gate_limit = keys::positive(*limit);
  if (c.activation != HiddenActivation::silu)
    root.at("hidden_act").unsupported("is not silu, the only activation of this family's clamped gate");
}

void write_gpt_oss(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  keys::write_layer_windows(c, out);
  write_experts(c, out, "num_local_experts");
  out["attention_bias"] = c.qkv_bias;
  out["swiglu_alpha"] = c.gate_slope;
  out["swiglu_limit"] = c.gate_limit;
}

}  // namespace

const Family kQwen3MoeFamily{Architecture::qwen3_moe, "qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, write_qwen3_moe};
const Family kGptOssFamily{Architecture::gpt_oss, "gpt_oss", "GptOssForCausalLM", read_gpt_oss, write_gpt_oss, false, true};
const Family kMixtralFamily{Architecture::mixtral, "mixtral", "MixtralForCausalLM", read_mixtral, write_mixtral};

}  // namespace weft
