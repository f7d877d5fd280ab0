// OLMo 2: norms after attention and the MLP, and one norm over all heads of q and one over those of k. OLMo 3 adds a window in three of
// four layers, which have no RoPE scaling.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

constexpr keys::Absent kAbsent{.norm_eps = 1e-5, .pad_id = 1};
constexpr double kOlmo3Theta = 500000;

void read_block(const JsonNode& root, ModelConfig& c) {
  c.norms = NormPlaces::after;
  c.qk_norm = c.qk_norm_whole = true;
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
}

void read_olmo2(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c, kAbsent);
  read_block(root, c);
}

void write_olmo2(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
}

void read_olmo3(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, kAbsent);
  keys::read_layered_rope(root, c, kOlmo3Theta, kOlmo3Theta);
  const auto theta = root.find("rope_theta");
  if (theta && theta->number() != kOlmo3Theta && !root.find("rope_parameters"))
    theta->unsupported("is ", theta->number(),
                       " without rope_parameters: versions of transformers disagree about the layers with a window");
  keys::read_layer_windows(root, c, 4096, [](int64_t layer) { return (layer + 1) % 4 != 0; });
  read_block(root, c);
}

// transformers before 5.13 reads only the older keys, as in the published models; they can express only that base.
void write_olmo3(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
  keys::write_layer_windows(c, out);
  if (c.rope_theta == kOlmo3Theta && c.local_rope_theta == kOlmo3Theta) return;
  out.erase("rope_theta");
  out.erase("rope_scaling");
  out["rope_parameters"] = {{"full_attention", keys::rope_parameters(c.rope_theta, c.rope_scaling)},
                            {"sliding_attention", keys::rope_parameters(c.local_rope_theta, {})}};
}

}  // namespace

const Family kOlmo2Family{Architecture::olmo2, "olmo2", "Olmo2ForCausalLM", read_olmo2, write_olmo2};
const Family kOlmo3Family{Architecture::olmo3, "olmo3", "Olmo3ForCausalLM", read_olmo3, write_olmo3};

}  // namespace weft
