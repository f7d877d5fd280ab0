// The model families of GGUF files: a table with one entry per family, which has llama.cpp's names of its tensors and keys.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/gguf_layouts.h"

namespace weft {

struct GgufName {
  const char* ours;    // "model.layers.{}.self_attn.q_proj", without .weight or .bias; or a complete name
  const char* theirs;  // "blk.{}.attn_q"
  GgufLayout layout = GgufLayout::same;
};

// A key "<family>.<key>" that holds a number of the config.
struct GgufNumber {
  const char* key;
  double ModelConfig::* member;
  bool required;
  float ModelConfig::* single = nullptr;  // instead of `member`; 0 is not written
  double absent = 0;                      // llama.cpp's default if the key is absent; if above 0, the number cannot be 0

  double of(const ModelConfig& config) const { return single ? double(config.*single) : config.*member; }
  void set(ModelConfig& config, double value) const { single ? void(config.*single = float(value)) : void(config.*member = value); }
};

// How a family uses the key attention.sliding_window; `complete` chooses its layers.
struct GgufWindow {
  bool read = false;     // false: a file with the key is rejected
  bool written = false;  // llama.cpp applies the window; false: a model with a window is not written
  int64_t absent = 0;    // as GgufNumber::absent
};

struct GgufFamily {
  Architecture architecture;
  const char* name;  // value of general.architecture and prefix of the keys: "llama.block_count"
  std::span<const GgufName> names;
  std::span<const GgufNumber> numbers;  // in addition to the sizes, which all families have
  HiddenActivation activation;          // llama.cpp's activation for the family
  // Sets the fields that llama.cpp fixes for the family, given the sizes and numbers; may be null.
  void (*complete)(ModelConfig& config) = nullptr;
  GgufWindow window = {};
  bool experts = false;       // the MLP of every layer is a mixture of experts
  bool rotates_part = false;  // rope.dimension_count may be less than the head size
};

// Throws unsupported if llama.cpp does not have the family.
const GgufFamily& gguf_family(Architecture architecture);
// The family with llama.cpp's name, or nullptr if it is not supported. If several families have the name: the one of `architecture`, else
// the first, so that a Mistral is read as a Llama.
const GgufFamily* gguf_family(std::string_view name, std::optional<Architecture> architecture = std::nullopt);
std::string gguf_family_names();  // "llama, qwen2, ..."

// The name and layout in a GGUF file of our tensor `name` ("model.layers.0.self_attn.q_proj.weight"); nullopt: the family has no such
// tensor.
struct GgufPlace {
  std::string name;
  GgufLayout layout;
};
std::optional<GgufPlace> gguf_place(const GgufFamily& family, const std::string& name);

}  // namespace weft
