// A model family: its name in config.json and two functions that convert its keys to a ModelConfig and back. All differences between
// families are fields of ModelConfig (CONTRIBUTING.md, "Add a model family").
#pragma once

#include <optional>
#include <span>

#include "weft/io/json.h"
#include "weft/models/config.h"

namespace weft {

constexpr int64_t kMostLayers = 4096;  // bounds the memory of a model with tiny layers: each layer has host objects

struct Family {
  Architecture architecture;
  const char* model_type;
  const char* class_name;  // of transformers
  void (*read)(const JsonNode& root, ModelConfig& config);
  void (*write)(const ModelConfig& config, nlohmann::ordered_json& out);
  bool code_in_folder = false;  // accepts auto_map: published folders have a copy of the class, which transformers does not need
  bool mxfp4 = false;           // accepts a quantization_config with experts in MXFP4
};

// For the config.json of a multimodal model (Gemma 3 from 4B on, Mistral 3): a document with only the text model's config, defaults filled
// in, under kTextConfig. nullopt if `root` is not multimodal.
inline constexpr const char* kTextConfig = "text_config";
std::optional<Json> text_document(const JsonNode& root);

std::span<const Family* const> families();
const Family& family_of(Architecture architecture);

// Defined in the family's file.
extern const Family kLlamaFamily, kQwen2Family, kQwen3Family, kGpt2Family, kMistralFamily, kMinistral3Family, kGraniteFamily,
    kSmolLm3Family, kOlmo2Family, kOlmo3Family, kPhi3Family, kGemma2Family, kGemma3Family, kQwen3MoeFamily, kMixtralFamily, kGptOssFamily;

}  // namespace weft
