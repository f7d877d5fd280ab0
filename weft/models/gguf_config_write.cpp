#include <cmath>

#include "weft/base/check.h"
#include "weft/models/families/keys.h"
#include "weft/models/gguf_config.h"
#include "weft/models/gguf_config_keys.h"
#include "weft/models/gguf_rope.h"

namespace weft {
namespace {

using namespace gguf_keys;

// Whether the window changes the model. A window of the whole context masks nothing, so it can be written as any window, unless layers with
// a window also have another RoPE base.
bool has_effective_window(const ModelConfig& c) { return c.window > 0 && (c.window < c.max_positions || c.local_rope_theta > 0); }

constexpr const char *kWindowOfAttention = "window of attention", *kScaling = "RoPE scaling";

// Advice for the error: with a context no larger than the window, the window has no effect.
std::string way_without_window(const ModelConfig& c) {
  if (c.window == 0 || c.local_rope_theta > 0) return "";
  return join("; with --context ", c.window, " the window has no effect and the model can be written");
}

std::string name_of_scaling(const ModelConfig& c) {
  return join("; here it is ", keys::rope_parameters(c.rope_theta, c.rope_scaling)["rope_type"].get<std::string>());
}

// Throws unless reading the keys would give the same config: all other settings must have llama.cpp's values for the family.
void check_representable(const ModelConfig& c, const GgufFamily& family) {
  ModelConfig d;
  d.activation = family.activation;
  for (const IntegerKey& key : kIntegers) d.*key.member = c.*key.member;
  for (const GgufNumber& number : family.numbers) number.set(d, number.of(c) == 0 ? number.absent : number.of(c));
  d.tie_embeddings = c.tie_embeddings;
  if (family.window.written) d.window = c.window == 0 ? family.window.absent : c.window;
  if (family.complete) family.complete(d);
  const bool gpt_oss = c.architecture == Architecture::gpt_oss;
  const bool expert_size = c.expert_size == (c.architecture == Architecture::mixtral || gpt_oss ? c.intermediate_size : c.expert_size);
  const bool olmo2 = family.name == std::string_view("olmo2"), phi3 = c.architecture == Architecture::phi3;
  const bool biases = c.architecture == Architecture::llama || c.architecture == Architecture::granite ||
                      c.architecture == Architecture::gpt2 || (c.architecture == Architecture::qwen2 && !c.attention_out_bias);
  const std::pair<const char*, bool> settings[] = {
      {"activation", c.activation == d.activation},
      {"kind of norms",
       c.norms == d.norms && c.norm_adds_one == d.norm_adds_one && c.qk_norm == d.qk_norm && c.qk_norm_whole == d.qk_norm_whole},
      {kWindowOfAttention,
       has_effective_window(c) ? c.window == d.window && c.window_layers == d.window_layers : d.window == 0 || c.window > 0},
      {"soft cap", c.attention_soft_cap == d.attention_soft_cap && c.logits_soft_cap == d.logits_soft_cap},
      {"scale of the embeddings", std::abs(c.embedding_scale - d.embedding_scale) < 1e-6 * d.embedding_scale},
      {"scale of attention", std::abs(c.attention_scale - d.attention_scale) < 1e-6 && c.scale_attention && !c.scale_by_inverse_layer},
      {"scale of the residuals or logits", c.residual_scale == d.residual_scale && c.logits_divisor == d.logits_divisor},
      {"range of yarn, which it rounds; truncate is false here", c.rope_scaling.kind != RopeScaling::Kind::yarn || c.rope_scaling.truncate},
      {kScaling, has_gguf_rope_scaling(c, family)},
      {"use of rotary positions", (c.rotary_fraction == 1 || family.rotates_part) && c.rotary_layers == d.rotary_layers &&
                                      c.local_rope_theta == d.local_rope_theta && c.query_growth == d.query_growth},
      {"head", c.tie_embeddings == d.tie_embeddings && !(c.tie_embeddings && (olmo2 || gpt_oss))},
      {"size of heads", c.heads * c.head_dim == c.hidden_size || !(olmo2 || phi3)},
      {"mixture of experts", c.router_of_chosen && c.expert_layers.empty() && expert_size && family.experts == (c.experts > 0)},
      {"gate of experts", c.clamped_experts == d.clamped_experts && c.gate_slope == d.gate_slope && c.gate_limit == d.gate_limit},
      {"softmax of attention", c.attention_sinks == d.attention_sinks},
      {"set of biases",
       gpt_oss ? c.qkv_bias && c.attention_out_bias && !c.mlp_bias : biases || !(c.qkv_bias || c.attention_out_bias || c.mlp_bias)},
  };
  for (const auto& [what, same] : settings)
    if (!same)
      fail(ErrorCode::unsupported, "export", "this ", name(c.architecture), " model cannot be written as GGUF: llama.cpp's ", family.name,
           " has another ", what,
           what == kWindowOfAttention ? way_without_window(c)
           : what == kScaling         ? name_of_scaling(c)
                                      : "");
}

}  // namespace

void put_model_config(const ModelConfig& c, GgufMetadata& metadata) {
  const GgufFamily& family = gguf_family(c.architecture);
  const std::string prefix = join(family.name, ".");
  check_representable(c, family);
  metadata.put(prefix + "vocab_size", uint32_t(c.vocab_size));
  for (const IntegerKey& key : kIntegers)
    if (key.required || has_rope(family)) metadata.put(prefix + key.key, uint32_t(c.*key.member));
  for (const GgufNumber& number : family.numbers)
    if (number.of(c) != 0) metadata.put(prefix + number.key, float(number.of(c)));
  if (family.window.written && c.window > 0) metadata.put(prefix + kWindow, uint32_t(c.window));
  if (family.experts) {
    metadata.put(prefix + kExperts, uint32_t(c.experts));
    metadata.put(prefix + kExpertsOfToken, uint32_t(c.experts_per_token));
    if (c.architecture != Architecture::mixtral) metadata.put(prefix + kExpertSize, uint32_t(c.expert_size));
  }
  if (!has_rope(family)) return;
  metadata.put(prefix + kValueLength, uint32_t(c.head_dim));
  metadata.put(prefix + kRotated, uint32_t(c.rotary_dims()));
  put_rope_scaling(c, family, prefix, metadata);
}

}  // namespace weft
