#include "weft/models/families/keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weft::keys {
namespace {

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

std::optional<int64_t> window_of(const JsonNode& root, const ModelConfig& c, int64_t absent) {
  const auto node = root.find("sliding_window");
  if (!node)
    return root.value().contains("sliding_window") || absent == 0 ? std::nullopt : std::optional(std::min(absent, c.max_positions));
  const int64_t window = node->integer(1, kMost);
  if (window > c.max_positions) node->refuse("is ", window, ", more than the context, max_position_embeddings ", c.max_positions);
  return window;
}

}  // namespace

HiddenActivation read_activation(const JsonNode& root, const std::string& key, const std::string& otherwise) {
  const std::string text = root.text_or(key, otherwise);
  if (text == "silu" || text == "swish") return HiddenActivation::silu;
  for (const char* same : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"})
    if (text == same) return HiddenActivation::gelu_tanh;
  if (text == "gelu" || text == "gelu_python") return HiddenActivation::gelu_erf;
  if (text == "relu") return HiddenActivation::relu;
  root.at(key).unsupported("is '", shown(text), "'; supported are silu, gelu_new, gelu_pytorch_tanh, gelu and relu");
}

const char* activation_name(HiddenActivation activation) {
  switch (activation) {
    case HiddenActivation::silu: return "silu";
    case HiddenActivation::relu: return "relu";
    case HiddenActivation::gelu_tanh: return "gelu_new";
    case HiddenActivation::gelu_erf: return "gelu";
  }
  return "";
}

double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

int64_t divided(const JsonNode& node, int64_t size, int64_t heads) {
  if (size % heads != 0) node.refuse("is ", heads, ", which does not divide a hidden size of ", size);
  return size / heads;
}

double read_norm_eps(const JsonNode& root, const char* key, double absent) {
  const double eps = root.number_or(key, absent);
  if (!(eps >= 0 && std::isfinite(float(eps)))) root.at(key).refuse("is ", eps, ", expected a finite f32 of zero or more");
  return eps;
}

float read_dropout(const JsonNode& root, const char* key, double absent) {
  const double p = root.number_or(key, absent);
  if (!(p >= 0 && float(p) < 1)) root.at(key).refuse("is ", p, ", expected zero or more and below 1");
  return float(p);
}

void read_sizes(const JsonNode& root, ModelConfig& c, const Absent& absent) {
  c.hidden_size = root.at("hidden_size").integer(1, kMost);
  c.layers = root.at("num_hidden_layers").integer(1, kMostLayers);
  c.heads = root.at("num_attention_heads").integer(1, kMost);
  c.intermediate_size = root.at("intermediate_size").integer(1, kMost);
  c.max_positions = root.at("max_position_embeddings").integer(1, kMost);
  // A family whose default in transformers is not the number of heads must have the key: its absence is more likely a mistake.
  const bool has_kv_heads = root.value().contains("num_key_value_heads");  // null: as many as heads
  if (absent.kv_heads_required && !has_kv_heads) root.refuse("has no 'num_key_value_heads'");
  c.kv_heads = root.integer_or("num_key_value_heads", absent.kv_heads && !has_kv_heads ? absent.kv_heads : c.heads, 1, kMost);
  if (const auto given = root.find("head_dim"))
    c.head_dim = given->integer(1, kMost);
  else
    c.head_dim = absent.head_dim ? absent.head_dim : divided(root.at("num_attention_heads"), c.hidden_size, c.heads);
  if (c.heads % c.kv_heads != 0)
    root.at("num_attention_heads").refuse("is ", c.heads, ", expected a multiple of num_key_value_heads, ", c.kv_heads);
  c.norm_eps = read_norm_eps(root, "rms_norm_eps", absent.norm_eps);
  c.activation = read_activation(root, absent.activation_key, absent.activation);
  c.attention_dropout = read_dropout(root, "attention_dropout", 0);
  c.tie_embeddings = root.boolean_or("tie_word_embeddings", absent.tied);
  if (!root.value().contains("pad_token_id") && absent.pad_id && *absent.pad_id < c.vocab_size) c.pad_id = absent.pad_id;
}

void read_decoder(const JsonNode& root, ModelConfig& c, const Absent& absent) {
  read_sizes(root, c, absent);
  refuse_windows(root);
  read_rope(root, c, absent.rope_theta);
}

void write_sizes(const ModelConfig& c, Ordered& out, const char* activation_key) {
  const bool dynamic = c.rope_scaling.kind == RopeScaling::Kind::dynamic;
  out["hidden_size"] = c.hidden_size;
  out["num_hidden_layers"] = c.layers;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  out["head_dim"] = c.head_dim;
  out["intermediate_size"] = c.intermediate_size;
  // dynamic scaling is relative to the original context, not to the declared one.
  out["max_position_embeddings"] = dynamic ? c.rope_scaling.original_context : c.max_positions;
  out["rms_norm_eps"] = c.norm_eps;
  out[activation_key] = activation_name(c.activation);
  out["attention_dropout"] = shortest(c.attention_dropout);
}

void write_decoder(const ModelConfig& c, Ordered& out) {
  write_sizes(c, out);
  out["rope_theta"] = c.rope_theta;
  out["rope_scaling"] = nullptr;
  if (c.rope_scaling.kind == RopeScaling::Kind::none) return;
  out["rope_scaling"] = rope_parameters(c.rope_theta, c.rope_scaling);
  out["rope_scaling"].erase("rope_theta");
}

void read_window(const JsonNode& root, ModelConfig& c, int64_t absent) { c.window = window_of(root, c, absent).value_or(0); }

void read_layer_windows(const JsonNode& root, ModelConfig& c, int64_t absent, const std::function<bool(int64_t)>& by_default) {
  const auto types = root.find("layer_types");
  std::vector<bool> sliding;
  for (const JsonNode& type : types ? types->elements() : std::vector<JsonNode>()) {
    if (type.text() != kFull && type.text() != kSliding)
      type.unsupported("is '", shown(type.text()), "'; supported are ", kFull, " and ", kSliding);
    sliding.push_back(type.text() == kSliding);
  }
  for (int64_t layer = 0; !types && layer < c.layers; ++layer) sliding.push_back(by_default(layer));
  if (int64_t(sliding.size()) != c.layers)
    types->refuse("has ", sliding.size(), " elements, expected one for each of ", c.layers, " layers");
  if (std::ranges::none_of(sliding, [](bool each) { return each; })) return;
  const auto window = window_of(root, c, absent);
  if (!window) (types ? *types : root).refuse("has layers with ", kSliding, ", but no sliding_window is given");
  c.window = *window;
  if (std::ranges::any_of(sliding, [](bool each) { return !each; })) c.window_layers = sliding;
}

void refuse_windows(const JsonNode& root) {
  if (root.boolean_or("use_sliding_window", false)) root.at("use_sliding_window").unsupported("is true; this family has no windows");
  if (const auto layers = root.find("layer_types"))
    for (const JsonNode& layer : layers->elements())
      if (layer.text() != kFull) layer.unsupported("is '", shown(layer.text()), "'; only ", kFull, " is supported");
}

void write_window(const ModelConfig& c, Ordered& out) { out["sliding_window"] = c.window > 0 ? Ordered(c.window) : Ordered(nullptr); }

void write_layer_windows(const ModelConfig& c, Ordered& out) {
  write_window(c, out);
  out["layer_types"] = Ordered::array();
  for (int64_t layer = 0; layer < c.layers; ++layer) out["layer_types"].push_back(c.has_window(layer) ? kSliding : kFull);
}

float read_soft_cap(const JsonNode& root, const char* key, double absent) {
  const auto node = root.find(key);
  if (!node) return root.value().contains(key) ? 0.0f : float(absent);
  const double cap = node->number();
  if (!(float(cap) > 0 && std::isfinite(float(cap)))) node->refuse("is ", cap, ", expected a finite f32 above 0, or null for none");
  return float(cap);
}

Ordered soft_cap_json(float cap) { return cap > 0 ? Ordered(shortest(cap)) : Ordered(nullptr); }

}  // namespace weft::keys
