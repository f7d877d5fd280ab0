// Mistral (Jiang et al., 2023): Llama with a window in every layer. Ministral 3: yarn scaling, and queries scaled by their position.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

constexpr const char* kGrowth = "llama_4_scaling_beta";

void read_mistral(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c, {.kv_heads_required = true});
  keys::read_window(root, c, 4096);
}

void write_mistral(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  keys::write_window(c, out);
}

void read_ministral3(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c, {.norm_eps = 1e-5, .kv_heads_required = true, .head_dim = 128, .pad_id = 11});
  keys::read_window(root, c, 0);
  const auto older = root.find("rope_scaling");
  const JsonNode positions = older ? *older : root.at("rope_parameters");
  c.query_growth = positions.at(kGrowth).number();
  if (!(c.query_growth >= 0)) positions.at(kGrowth).refuse("is ", c.query_growth, ", expected zero or more");
  if (c.rope_scaling.original_context == 0) positions.unsupported("has no yarn scaling, which ", kGrowth, " needs here");
}

void write_ministral3(const ModelConfig& c, keys::Ordered& out) {
  keys::write_sizes(c, out);
  keys::write_window(c, out);
  out["rope_parameters"] = keys::rope_parameters(c.rope_theta, c.rope_scaling);
  out["rope_parameters"][kGrowth] = c.query_growth;
}

}  // namespace

const Family kMistralFamily{Architecture::mistral, "mistral", "MistralForCausalLM", read_mistral, write_mistral};
const Family kMinistral3Family{Architecture::ministral3, "ministral3", "Ministral3ForCausalLM", read_ministral3, write_ministral3};

}  // namespace weft
