// Keys of config.json that families share. The readers throw with the key and its value; docs/models.md lists the keys.
#pragma once

#include <functional>
#include <optional>

#include "weft/models/families/family.h"

namespace weft::keys {

using Ordered = nlohmann::ordered_json;

constexpr int64_t kMost = (int64_t(1) << 31) - 1;

// Values of keys that a file leaves out, as the class in transformers has them.
struct Absent {
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tied = false;
  bool kv_heads_required = false;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: hidden size by heads
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  std::optional<int64_t> pad_id = {};
};

HiddenActivation read_activation(const JsonNode& root, const std::string& key, const std::string& otherwise);
int64_t divided(const JsonNode& node, int64_t size, int64_t heads);

// Sizes, norm_eps, activation, attention_dropout, tie_word_embeddings; no positions.
void read_sizes(const JsonNode& root, ModelConfig& c, const Absent& absent);
// read_sizes, and rotary positions that are the same in every layer. Refuses windows.
void read_decoder(const JsonNode& root, ModelConfig& c, const Absent& absent = {});
void write_sizes(const ModelConfig& c, Ordered& out, const char* activation_key = "hidden_act");
void write_decoder(const ModelConfig& c, Ordered& out);

// rope_theta and rope_scaling as older files have them, rope_parameters as newer ones do, or rope_scaling with the theta in it; where
// several are given they must agree.
void read_rope(const JsonNode& root, ModelConfig& c, double absent_theta);
// The same for a model whose layers with a window have other positions, without a scaling: rope_parameters.full_attention and
// rope_parameters.sliding_attention.
void read_layered_rope(const JsonNode& root, ModelConfig& c, double absent_theta, double local_theta);
// The factor of yarn and longrope on cos and sin, for a file without attention_factor.
double yarn_attention_factor(double factor);
double longrope_attention_factor(double factor, int64_t original_context);
// The positions as an object in the newer spelling, rope_theta among them.
Ordered rope_parameters(double theta, const RopeScaling& scaling);

// sliding_window for every layer; a file without the key has `absent`.
void read_window(const JsonNode& root, ModelConfig& c, int64_t absent);
// The same for the layers named by layer_types, or chosen by `by_default(layer)` in a file without that key.
void read_layer_windows(const JsonNode& root, ModelConfig& c, int64_t absent, const std::function<bool(int64_t)>& by_default);
void refuse_windows(const JsonNode& root);  // use_sliding_window, layer_types other than full_attention
void write_window(const ModelConfig& c, Ordered& out);
void write_layer_windows(const ModelConfig& c, Ordered& out);

double positive(const JsonNode& node);  // a number above zero
// A number above zero, or null, which is 0: no cap.
float read_soft_cap(const JsonNode& root, const char* key, double absent);
Ordered soft_cap_json(float cap);

// A float as the shortest text that reads back as the same float: 0.1, not 0.10000000149011612.
double shortest(float value);
const char* activation_name(HiddenActivation activation);

}  // namespace weft::keys
