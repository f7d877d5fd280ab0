// Keys of config.json that families share (listed in docs/models.md). Errors of the readers have the key and its value.
#pragma once

#include <functional>
#include <optional>

#include "weft/models/families/family.h"

namespace weft::keys {

using Ordered = nlohmann::ordered_json;

constexpr int64_t kMost = (int64_t(1) << 31) - 1;

// Defaults for absent keys: those of the class in transformers.
struct Absent {
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tied = false;
  bool kv_heads_required = false;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: hidden_size / heads
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  std::optional<int64_t> pad_id = {};
};

HiddenActivation read_activation(const JsonNode& root, const std::string& key, const std::string& otherwise);
int64_t divided(const JsonNode& node, int64_t size, int64_t heads);
double read_norm_eps(const JsonNode& root, const char* key, double absent);
float read_dropout(const JsonNode& root, const char* key, double absent);

// Sizes, norm_eps, activation, attention_dropout, tie_word_embeddings; no positions.
void read_sizes(const JsonNode& root, ModelConfig& c, const Absent& absent);
// read_sizes, and rotary positions common to all layers. Refuses windows.
void read_decoder(const JsonNode& root, ModelConfig& c, const Absent& absent = {});
void write_sizes(const ModelConfig& c, Ordered& out, const char* activation_key = "hidden_act");
void write_decoder(const ModelConfig& c, Ordered& out);

// Reads rope_theta and rope_scaling (older files), rope_parameters (newer ones), or a rope_scaling that contains the theta. If a file has
// several of them, they must agree.
void read_rope(const JsonNode& root, ModelConfig& c, double absent_theta);
// The same for models whose layers with a window have their own base and no scaling: rope_parameters.full_attention and
// rope_parameters.sliding_attention.
void read_layered_rope(const JsonNode& root, ModelConfig& c, double absent_theta, double local_theta);
// The default attention_factor of yarn and longrope, which multiplies cos and sin.
double yarn_attention_factor(double factor);
double longrope_attention_factor(double factor, int64_t original_context);
// The object rope_parameters of newer files, with rope_theta.
Ordered rope_parameters(double theta, const RopeScaling& scaling);

// sliding_window for every layer; `absent` is its default.
void read_window(const JsonNode& root, ModelConfig& c, int64_t absent);
// sliding_window for the layers in layer_types, or, without that key, for those where by_default(layer) is true.
void read_layer_windows(const JsonNode& root, ModelConfig& c, int64_t absent, const std::function<bool(int64_t)>& by_default);
// Throws for use_sliding_window and for layer_types other than full_attention.
void refuse_windows(const JsonNode& root);
void write_window(const ModelConfig& c, Ordered& out);
void write_layer_windows(const ModelConfig& c, Ordered& out);

double positive(const JsonNode& node);  // throws unless the number is above zero
// A number above zero; null is read as 0 (no cap).
float read_soft_cap(const JsonNode& root, const char* key, double absent);
Ordered soft_cap_json(float cap);

// The double that prints as the shortest text of this float: 0.1, not 0.10000000149011612.
double shortest(float value);
const char* activation_name(HiddenActivation activation);

}  // namespace weft::keys
