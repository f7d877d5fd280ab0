// The families of models that GGUF files hold, by the names of llama.cpp: one entry of a table for each, with the names of its tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/gguf_layouts.h"

namespace weft {

struct GgufName {
  const char* ours;    // "model.layers.{}.self_attn.q_proj", without .weight and .bias, or a whole name
  const char* theirs;  // "blk.{}.attn_q"
  GgufLayout layout = GgufLayout::same;
};

// A key below "<family>." that holds a number of the config.
struct GgufNumber {
  const char* key;
  double ModelConfig::* member;
  bool required;
  float ModelConfig::* single = nullptr;  // instead of `member`; 0 is not written
  double absent = 0;                      // llama.cpp's default for a file without the key; if above 0, every file has a value

  double of(const ModelConfig& config) const { return single ? double(config.*single) : config.*member; }
  void set(ModelConfig& config, double value) const { single ? void(config.*single = float(value)) : void(config.*member = value); }
};

// The key attention.sliding_window, for the layers that `complete` chooses.
struct GgufWindow {
  bool read = false;     // else a file with the key is rejected
  bool written = false;  // llama.cpp applies it: else a model with a window is rejected
  int64_t absent = 0;    // as GgufNumber::absent
};

struct GgufFamily {
  Architecture architecture;
  const char* name;  // general.architecture, and the first part of the keys: "llama.block_count"
  std::span<const GgufName> names;
  std::span<const GgufNumber> numbers;  // beside the sizes, which all families have
  HiddenActivation activation;          // the one that llama.cpp computes
  // Sets what every model of the family has, from its sizes and numbers; nullptr: nothing.
  void (*complete)(ModelConfig& config) = nullptr;
  GgufWindow window = {};
  bool experts = false;       // the MLP of every layer is a mixture of experts
  bool rotates_part = false;  // rope.dimension_count may be less than a head
};

// Throws unsupported if llama.cpp does not have the family.
const GgufFamily& gguf_family(Architecture architecture);
// nullptr: not supported here. Of families with one name the one of the architecture, else the first: a Mistral is read as a Llama.
const GgufFamily* gguf_family(std::string_view name, std::optional<Architecture> architecture = std::nullopt);
std::string gguf_family_names();  // "llama, qwen2, ..."

// The place of our tensor `name` ("model.layers.0.self_attn.q_proj.weight") in a file of the family; nullopt: it has no such tensor.
struct GgufPlace {
  std::string name;
  GgufLayout layout;
};
std::optional<GgufPlace> gguf_place(const GgufFamily& family, const std::string& name);

}  // namespace weft
