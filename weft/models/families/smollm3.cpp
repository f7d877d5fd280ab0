// SmolLM3: Llama with some layers that have no rotary positions; layers may have a window.
#include <algorithm>

#include "weft/models/families/keys.h"

namespace weft {
namespace {

// In no_rope_layers, 1 stands for a layer with rotary positions.
std::vector<bool> read_rotary_layers(const JsonNode& root, const ModelConfig& c) {
  std::vector<bool> rotary;
  const auto given = root.find("no_rope_layers");
  const int64_t interval = root.integer_or("no_rope_layer_interval", 4, 1, keys::kMost);
  for (int64_t layer = 0; !given && layer < c.layers; ++layer) rotary.push_back((layer + 1) % interval != 0);
  for (const JsonNode& each : given ? given->elements() : std::vector<JsonNode>()) rotary.push_back(each.integer(0, 1) == 1);
  if (int64_t(rotary.size()) < c.layers) given->refuse("has ", rotary.size(), " elements, expected one for each of ", c.layers, " layers");
  rotary.resize(size_t(c.layers));
  return std::ranges::all_of(rotary, [](bool each) { return each; }) ? std::vector<bool>() : rotary;
}

void read(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, {.tied = true, .kv_heads_required = true, .pad_id = 128004});
  keys::read_rope(root, c, 2000000);
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.mlp_bias = root.boolean_or("mlp_bias", false);
  c.rotary_layers = read_rotary_layers(root, c);
  if (!root.boolean_or("use_sliding_window", false)) return keys::refuse_windows(root);
  keys::read_layer_windows(root, c, 0, [&](int64_t layer) { return root.find("sliding_window") && !c.has_rope(layer); });
}

void write(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  out["attention_bias"] = c.attention_out_bias;
  out["mlp_bias"] = c.mlp_bias;
  for (int64_t layer = 0; layer < c.layers; ++layer) out["no_rope_layers"].push_back(c.has_rope(layer) ? 1 : 0);
  out["use_sliding_window"] = c.window > 0;
  keys::write_layer_windows(c, out);
}

}  // namespace

const Family kSmolLm3Family{Architecture::smollm3, "smollm3", "SmolLM3ForCausalLM", read, write};

}  // namespace weft
