// Granite 3: Llama with four multipliers.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

struct Multiplier {
  const char* key;
  double ModelConfig::* value;
};
constexpr Multiplier kMultipliers[] = {{"embedding_multiplier", &ModelConfig::embedding_scale},
                                       {"attention_multiplier", &ModelConfig::attention_scale},
                                       {"residual_multiplier", &ModelConfig::residual_scale},
                                       {"logits_scaling", &ModelConfig::logits_divisor}};

void read(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c);
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.mlp_bias = root.boolean_or("mlp_bias", false);
  for (const auto& [key, value] : kMultipliers) c.*value = root.find(key) ? keys::positive(root.at(key)) : 1;
}

void write(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
  out["mlp_bias"] = c.mlp_bias;
  for (const auto& [key, value] : kMultipliers) out[key] = c.*value;
}

}  // namespace

const Family kGraniteFamily{Architecture::granite, "granite", "GraniteForCausalLM", read, write};

}  // namespace weft
