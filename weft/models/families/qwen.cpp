// Qwen2: Llama with biases on q, k and v. Qwen3: Llama with an RMSNorm on each head of q and k. Both may have a window in the layers from
// max_window_layers on.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

void read_windows(const JsonNode& root, ModelConfig& c) {
  if (!root.boolean_or("use_sliding_window", false)) return keys::refuse_windows(root);
  const int64_t first = root.integer_or("max_window_layers", 28);
  keys::read_layer_windows(root, c, 4096, [&](int64_t layer) { return layer >= first; });
}

void write_windows(const ModelConfig& c, keys::Ordered& out) {
  out["use_sliding_window"] = c.window > 0;
  if (c.window > 0) keys::write_layer_windows(c, out);
}

void read_qwen2(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, {.kv_heads_required = true});
  keys::read_rope(root, c, 10000);
  read_windows(root, c);
  c.qkv_bias = true;
}

void write_qwen2(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  write_windows(c, out);
}

void read_qwen3(const JsonNode& root, ModelConfig& c) {
  keys::read_sizes(root, c, {.kv_heads_required = true, .head_dim = 128});
  keys::read_rope(root, c, 10000);
  read_windows(root, c);
  c.qkv_bias = c.attention_out_bias = root.boolean_or("attention_bias", false);
  c.qk_norm = true;
}

void write_qwen3(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  write_windows(c, out);
  out["attention_bias"] = c.attention_out_bias;
}

}  // namespace

const Family kQwen2Family{Architecture::qwen2, "qwen2", "Qwen2ForCausalLM", read_qwen2, write_qwen2};
const Family kQwen3Family{Architecture::qwen3, "qwen3", "Qwen3ForCausalLM", read_qwen3, write_qwen3};

}  // namespace weft
