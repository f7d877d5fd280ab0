// Llama (Touvron et al., 2023); SmolLM and SmolLM2 have the same model_type.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

void read(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c);
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.mlp_bias = root.boolean_or("mlp_bias", false);
}

void write(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
  out["mlp_bias"] = c.mlp_bias;
}

}  // namespace

const Family kLlamaFamily{Architecture::llama, "llama", "LlamaForCausalLM", read, write};

}  // namespace weft
